"""Subnets and addresses by the operators' API."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Subnet
from panel.services import subnets

UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"
SUBNETS = "/api/v1/subnets"


@pytest.fixture
def v4(world):
    return f"/api/v1/subnet/{session.scalar(select(Subnet.id).where(Subnet.name == 'v4'))}"


@pytest.fixture
def free(as_, v4):
    """The addresses that may be given out; checks each time that the statistics count the same (SUB-05)."""

    def read():
        rows = as_("admin", "GET", f"{v4}/available-ips").json["data"]
        assert as_("admin", "GET", f"{v4}/statistics").json["data"]["available"] == len(rows)
        return [row["ip"] for row in rows]

    return read


def an_address(ip):
    return session.scalar(select(Address).where(Address.ip == ip))


def test_an_allocated_address_leaves_the_list(as_, cast, free):
    """SUB-01, SUB-05"""
    before = free()
    assert (len(before), before[0], before[-1]) == (253, "10.9.0.2", "10.9.0.254")
    instance = cast.instance()
    assert set(before) - set(free()) == {instance.ipv4}


def test_a_reserved_address_is_not_available(as_, cast, v4, free):
    """SUB-02, SUB-05"""
    address = an_address("10.9.0.2")
    answer = as_("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": True, "note": "router"})
    assert (answer.json["data"]["reserved"], answer.json["data"]["note"]) == (True, "router")
    assert "10.9.0.2" not in free()
    assert as_("admin", "GET", f"{v4}/statistics").json["data"] == {
        "total": 253,
        "available": 252,
        "reserved": 1,
        "used": 0,
    }
    assert cast.instance().ipv4 == "10.9.0.3"
    as_("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": False})
    assert "10.9.0.2" in free()


def test_an_address_in_use_cannot_be_reserved(as_, cast, free):
    address = an_address(cast.instance().ipv4)
    refused = as_("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": True})
    assert (refused.status_code, "in use" in refused.json["message"]) == (409, True)
    assert as_("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"note": "n"}).json["data"]["note"] == "n"
    assert as_("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": 1}).status_code == 422


def test_the_list_of_free_addresses_can_be_read_in_parts(as_, v4):
    answer = as_("admin", "GET", f"{v4}/available-ips?per_page=100&page=3")
    assert (len(answer.json["data"]), answer.json["meta"]["total"]) == (53, 253)
    assert as_("admin", "GET", f"{v4}/available-ips?per_page=101").status_code == 422


def test_an_address_names_its_instance(as_, cast, v4):
    instance = cast.instance()
    rows = as_("admin", "GET", f"{v4}/ips?use=used").json["data"]
    assert [(row["ip"], row["instance"]) for row in rows] == [
        (instance.ipv4, {"id": instance.id, "name": instance.name})
    ]
    every = as_("admin", "GET", "/api/v1/ips?search=10.9.0.25").json["data"]
    assert [row["ip"] for row in every] == ["10.9.0.25", *(f"10.9.0.25{digit}" for digit in range(5))]
    assert as_("admin", "GET", f"{v4}/ips?use=bad").status_code == 422


def test_an_ipv6_subnet_makes_addresses_when_they_are_needed(as_, cast):
    path = f"/api/v1/subnet/{session.scalar(select(Subnet.id).where(Subnet.name == 'v6'))}"
    before = as_("admin", "GET", f"{path}/statistics").json["data"]
    cast.instance()
    after = as_("admin", "GET", f"{path}/statistics").json["data"]
    assert (before["used"], after["used"], after["available"]) == (0, 1, 0)
    assert as_("admin", "GET", f"{path}/available-ips").json["data"] == []


BODY = {"name": "new", "cidr": "192.0.2.0/28", "gateway": "192.0.2.1", "nameservers": ["9.9.9.9", "2620:fe::fe"]}


def test_a_subnet_is_added_changed_and_removed(as_, cast):
    made = as_("admin", "POST", SUBNETS, json={**BODY, "hypervisor_group_id": cast.location.id, "enabled": True})
    assert made.status_code == 200
    data = made.json["data"]
    assert (data["family"], data["statistics"]["total"], data["nameservers"]) == (4, 13, ["9.9.9.9", "2620:fe::fe"])
    path = f"/api/v1/subnet/{data['id']}"
    changed = as_("admin", "PATCH", path, json={"enabled": False}).json["data"]
    assert {k for k in data if data[k] != changed[k]} == {"enabled", "updated_at"}
    refused = as_("admin", "PATCH", path, json={"cidr": "192.0.2.0/27"})
    assert (refused.status_code, refused.json["errors"].keys()) == (422, {"cidr"})
    assert as_("admin", "DELETE", path).status_code == 200
    assert as_("admin", "GET", path).status_code == 404
    assert an_address("192.0.2.2") is None


WRONG = {
    "name": ["v4", "", "x" * 65],
    "hypervisor_group_id": [UNKNOWN, None],
    "cidr": ["192.0.2.1/28", "192.0.2.0", "10.0.0.0/8", "10.9.0.128/25", "x", 5, "fd99::/80"],
    "gateway": ["192.0.3.1", "fd00::1", "x"],
    "nameservers": [["x"], "9.9.9.9", ["9.9.9.9"] * 9],
    "enabled": [1, "true"],
}


@pytest.mark.parametrize("field", WRONG)
def test_wrong_values_are_refused_by_name(as_, cast, field):
    for value in WRONG[field]:
        body = {**BODY, "hypervisor_group_id": cast.location.id, field: value}
        if field == "cidr":
            body["gateway"] = None
        answer = as_("admin", "POST", SUBNETS, json=body)
        assert answer.status_code == 422, value
        assert [name.partition(".")[0] for name in answer.json["errors"]] == [field], value
    assert session.query(Subnet).count() == 2


def test_a_subnet_in_use_stays(as_, cast, v4):
    cast.instance()
    refused = as_("admin", "DELETE", v4)
    assert (refused.status_code, "in use" in refused.json["message"]) == (409, True)


def test_a_closed_subnet_gives_no_addresses(as_, cast, v4):
    as_("admin", "PATCH", v4, json={"enabled": False})
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    answer = as_("owner", "POST", "/api/cloud-service/instances", json=body)
    assert (answer.status_code, answer.json["reason"]) == (422, "ipv4_not_available")


@pytest.mark.parametrize("path", [SUBNETS, "/api/v1/ips", "{v4}/ips"])
def test_a_list_takes_the_same_queries_for_many_rows(as_, cast, queries, v4, path):
    as_("admin", "GET", path.format(v4=v4))
    queries.clear()
    as_("admin", "GET", path.format(v4=v4))
    few = len(queries)
    for number in range(30):
        subnets.create(session.merge(cast.location), name=f"s{number}", cidr=f"10.8.{number}.0/29")
        cast.instance()
    queries.clear()
    assert len(as_("admin", "GET", path.format(v4=v4)).json["data"]) >= 30
    assert len(queries) == few


@pytest.mark.parametrize("rest", ["", "/ips", "/available-ips", "/statistics"])
def test_an_unknown_id_is_not_found(as_, rest):
    """ENV-10"""
    assert as_("admin", "GET", f"/api/v1/subnet/{UNKNOWN}{rest}").status_code == 404
    assert as_("admin", "PATCH", f"/api/v1/ip/{UNKNOWN}", json={}).status_code == 404
