"""Routed subnets (pools of prefixes) and private subnets in the operators' API."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Plan, Subnet

SUBNETS_PATH = "/api/v1/subnets"
PREFIX_POOL_BODY = {"name": "pool", "kind": "routed", "cidr": "2001:db8::/48", "delegated_length": 64}


@pytest.fixture
def add_subnet(api_as, cast):
    def add(**values):
        return api_as(
            "admin", "POST", SUBNETS_PATH, json={"hypervisor_group_id": cast.location.id, **PREFIX_POOL_BODY, **values}
        )

    return add


def test_prefix_pool_allocates_lowest_free_prefix(api_as, cast, add_subnet):
    """INS-72, SUB-01, SUB-05: list, statistics and instance agree, also after a prefix was released."""
    subnet = add_subnet().json["data"]
    assert (subnet["kind"], subnet["family"], subnet["delegated_length"]) == ("routed", 6, 64)
    path = f"/api/v1/subnet/{subnet['id']}"
    session.get(Plan, cast.plan.id).ipv6_prefixes = 1
    session.commit()
    first, second = cast.instance(), cast.instance()
    rows = api_as("admin", "GET", f"{path}/ips").json["data"]
    assert [(row["ip"], row["instance"]["id"]) for row in rows] == [
        ("2001:db8::/64", first.id),
        ("2001:db8:0:1::/64", second.id),
    ]
    assert api_as("admin", "DELETE", path).status_code == 409
    released = {"action": "remove", "ips": ["2001:db8::/64"]}
    assert api_as("admin", "POST", f"/api/v1/instance/{first.id}/ips", json=released).status_code == 200
    free = api_as("admin", "GET", f"{path}/available-ips").json["data"]
    statistics = api_as("admin", "GET", f"{path}/statistics").json["data"]
    assert [address["ip"] for address in free] == ["2001:db8::/64"]
    assert statistics == {"total": 2, "available": 1, "reserved": 0, "used": 1}
    api_as("admin", "PATCH", f"/api/v1/ip/{free[0]['id']}", json={"reserved": True})
    assert [prefix.ip for prefix in cast.instance().prefixes] == ["2001:db8:0:2::/64"], (
        "a reserved prefix is not allocated"
    )


def test_gateway_prefix_is_not_allocated(cast, add_subnet):
    add_subnet(gateway="2001:db8::1")
    session.get(Plan, cast.plan.id).ipv6_prefixes = 2
    session.commit()
    assert [prefix.ip for prefix in cast.instance().prefixes] == ["2001:db8:0:1::/64", "2001:db8:0:2::/64"]


def test_delegated_length_defaults_to_64_or_subnet_length(add_subnet):
    assert add_subnet(delegated_length=None).json["data"]["delegated_length"] == 64
    small = add_subnet(name="small", cidr="2001:db9::/72", delegated_length=None).json["data"]
    assert small["delegated_length"] == 72
    assert session.get(Subnet, small["id"]).room == 1


INVALID_KIND_VALUES = [
    ({"kind": "routed", "cidr": "192.0.2.0/24", "delegated_length": None}, "kind"),
    ({"kind": "private", "delegated_length": None}, "kind"),
    ({"kind": "secret"}, "kind"),
    ({"delegated_length": 47}, "delegated_length"),
    ({"delegated_length": 128}, "delegated_length"),
    ({"delegated_length": "64"}, "delegated_length"),
    ({"kind": "public"}, "delegated_length"),
    ({"kind": "private", "cidr": "192.0.2.0/24"}, "delegated_length"),
]


@pytest.mark.parametrize(("values", "field"), INVALID_KIND_VALUES)
def test_invalid_subnet_kind_values_are_refused(add_subnet, values, field):
    answer = add_subnet(**values)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert session.scalar(select(Subnet.id).where(Subnet.name == "pool")) is None


def test_subnet_kind_cannot_be_changed(api_as, add_subnet):
    path = f"/api/v1/subnet/{add_subnet().json['data']['id']}"
    for body in ({"kind": "public"}, {"delegated_length": 56}):
        assert api_as("admin", "PATCH", path, json=body).status_code == 422


def test_private_addresses_are_excluded_from_ipv4_stats(api_as, cast, add_subnet):
    """The statistics of a hypervisor count public addresses only."""
    path = f"/api/v1/hypervisor/{cast.node.id}/ipv4/stats"
    before = api_as("admin", "GET", path).json["data"]
    private = {"kind": "private", "cidr": "10.20.0.0/24", "delegated_length": None}
    assert add_subnet(**private).json["data"]["statistics"]["available"] == 254
    session.get(Plan, cast.plan.id).private_ipv4 = 1
    session.commit()
    cast.instance()
    after = api_as("admin", "GET", path).json["data"]
    assert after == {**before, "used": before["used"] + 1, "group_available": before["group_available"] - 1}
