"""Subnets that are pools of prefixes, and private ones, by the operators' API."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Plan, Subnet

SUBNETS = "/api/v1/subnets"
POOL = {"name": "pool", "kind": "routed", "cidr": "2001:db8::/48", "delegated_length": 64}


@pytest.fixture
def add(as_, cast):
    def add(**values):
        return as_("admin", "POST", SUBNETS, json={"hypervisor_group_id": cast.location.id, **POOL, **values})

    return add


def test_a_pool_of_prefixes_hands_out_the_lowest_free_one(as_, cast, add):
    """INS-72, SUB-01, SUB-05: the list, the figures and the instance agree, also after one came back."""
    made = add().json["data"]
    assert (made["kind"], made["family"], made["delegated_length"]) == ("routed", 6, 64)
    path = f"/api/v1/subnet/{made['id']}"
    session.get(Plan, cast.plan.id).ipv6_prefixes = 1
    session.commit()
    first, second = cast.instance(), cast.instance()
    rows = as_("admin", "GET", f"{path}/ips").json["data"]
    assert [(row["ip"], row["instance"]["id"]) for row in rows] == [
        ("2001:db8::/64", first.id),
        ("2001:db8:0:1::/64", second.id),
    ]
    assert as_("admin", "DELETE", path).status_code == 409
    released = {"action": "remove", "ips": ["2001:db8::/64"]}
    assert as_("admin", "POST", f"/api/v1/instance/{first.id}/ips", json=released).status_code == 200
    free = as_("admin", "GET", f"{path}/available-ips").json["data"]
    figures = as_("admin", "GET", f"{path}/statistics").json["data"]
    assert [each["ip"] for each in free] == ["2001:db8::/64"]
    assert figures == {"total": 2, "available": 1, "reserved": 0, "used": 1}
    as_("admin", "PATCH", f"/api/v1/ip/{free[0]['id']}", json={"reserved": True})
    assert [each.ip for each in cast.instance().prefixes] == ["2001:db8:0:2::/64"], "a reserved one is not given out"


def test_the_prefix_that_holds_the_router_is_kept(cast, add):
    add(gateway="2001:db8::1")
    session.get(Plan, cast.plan.id).ipv6_prefixes = 2
    session.commit()
    assert [each.ip for each in cast.instance().prefixes] == ["2001:db8:0:1::/64", "2001:db8:0:2::/64"]


def test_prefixes_have_64_bits_unless_it_is_said_or_the_range_is_smaller(add):
    assert add(delegated_length=None).json["data"]["delegated_length"] == 64
    small = add(name="small", cidr="2001:db9::/72", delegated_length=None).json["data"]
    assert small["delegated_length"] == 72
    assert session.get(Subnet, small["id"]).room == 1


WRONG = [
    ({"kind": "routed", "cidr": "192.0.2.0/24", "delegated_length": None}, "kind"),
    ({"kind": "private", "delegated_length": None}, "kind"),
    ({"kind": "secret"}, "kind"),
    ({"delegated_length": 47}, "delegated_length"),
    ({"delegated_length": 128}, "delegated_length"),
    ({"delegated_length": "64"}, "delegated_length"),
    ({"kind": "public"}, "delegated_length"),
    ({"kind": "private", "cidr": "192.0.2.0/24"}, "delegated_length"),
]


@pytest.mark.parametrize(("values", "field"), WRONG)
def test_kinds_that_do_not_fit_are_refused_by_name(add, values, field):
    answer = add(**values)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert session.scalar(select(Subnet.id).where(Subnet.name == "pool")) is None


def test_the_kind_of_a_subnet_never_changes(as_, add):
    path = f"/api/v1/subnet/{add().json['data']['id']}"
    for body in ({"kind": "public"}, {"delegated_length": 56}):
        assert as_("admin", "PATCH", path, json=body).status_code == 422


def test_private_addresses_are_not_counted_as_public_ones(as_, cast, add):
    """The figures of a hypervisor are of what every machine needs."""
    path = f"/api/v1/hypervisor/{cast.node.id}/ipv4/stats"
    before = as_("admin", "GET", path).json["data"]
    private = {"kind": "private", "cidr": "10.20.0.0/24", "delegated_length": None}
    assert add(**private).json["data"]["statistics"]["available"] == 254
    session.get(Plan, cast.plan.id).private_ipv4 = 1
    session.commit()
    cast.instance()
    after = as_("admin", "GET", path).json["data"]
    assert after == {**before, "used": before["used"] + 1, "group_available": before["group_available"] - 1}
