"""Subnets and addresses by the operators' API."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Subnet
from panel.services import subnets

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"
SUBNETS = "/api/v1/subnets"


@pytest.fixture
def v4(rolled_back_app):
    return f"/api/v1/subnet/{session.scalar(select(Subnet.id).where(Subnet.name == 'v4'))}"


@pytest.fixture
def free(api_as, v4):
    """The addresses that may be given out; checks each time that the statistics count the same (SUB-05)."""

    def read():
        rows = api_as("admin", "GET", f"{v4}/available-ips").json["data"]
        assert api_as("admin", "GET", f"{v4}/statistics").json["data"]["available"] == len(rows)
        return [row["ip"] for row in rows]

    return read


def create_address(ip):
    return session.scalar(select(Address).where(Address.ip == ip))


def test_an_allocated_address_leaves_the_list(api_as, cast, free):
    """SUB-01, SUB-05"""
    before = free()
    assert (len(before), before[0], before[-1]) == (253, "10.9.0.2", "10.9.0.254")
    instance = cast.instance()
    assert set(before) - set(free()) == {instance.ipv4}


def test_a_reserved_address_is_not_available(api_as, cast, v4, free):
    """SUB-02, SUB-05"""
    address = create_address("10.9.0.2")
    answer = api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": True, "note": "router"})
    assert (answer.json["data"]["reserved"], answer.json["data"]["note"]) == (True, "router")
    assert "10.9.0.2" not in free()
    assert api_as("admin", "GET", f"{v4}/statistics").json["data"] == {
        "total": 253,
        "available": 252,
        "reserved": 1,
        "used": 0,
    }
    assert cast.instance().ipv4 == "10.9.0.3"
    api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": False})
    assert "10.9.0.2" in free()


def test_an_address_in_use_cannot_be_reserved(api_as, cast, free):
    address = create_address(cast.instance().ipv4)
    refused = api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": True})
    assert (refused.status_code, "in use" in refused.json["message"]) == (409, True)
    assert api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"note": "n"}).json["data"]["note"] == "n"
    assert api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": 1}).status_code == 422


def test_the_list_of_free_addresses_can_be_read_in_parts(api_as, v4):
    answer = api_as("admin", "GET", f"{v4}/available-ips?per_page=100&page=3")
    assert (len(answer.json["data"]), answer.json["meta"]["total"]) == (53, 253)
    assert api_as("admin", "GET", f"{v4}/available-ips?per_page=101").status_code == 422


def test_an_address_names_its_instance(api_as, cast, v4):
    instance = cast.instance()
    rows = api_as("admin", "GET", f"{v4}/ips?use=used").json["data"]
    assert [(row["ip"], row["instance"]) for row in rows] == [
        (instance.ipv4, {"id": instance.id, "name": instance.name})
    ]
    every = api_as("admin", "GET", "/api/v1/ips?search=10.9.0.25").json["data"]
    assert [row["ip"] for row in every] == ["10.9.0.25", *(f"10.9.0.25{digit}" for digit in range(5))]
    assert api_as("admin", "GET", f"{v4}/ips?use=bad").status_code == 422


def test_an_ipv6_subnet_makes_addresses_when_they_are_needed(api_as, cast):
    path = f"/api/v1/subnet/{session.scalar(select(Subnet.id).where(Subnet.name == 'v6'))}"
    before = api_as("admin", "GET", f"{path}/statistics").json["data"]
    cast.instance()
    after = api_as("admin", "GET", f"{path}/statistics").json["data"]
    assert (before["used"], after["used"], after["available"]) == (0, 1, 0)
    assert api_as("admin", "GET", f"{path}/available-ips").json["data"] == []


BODY = {"name": "new", "cidr": "192.0.2.0/28", "gateway": "192.0.2.1", "nameservers": ["9.9.9.9", "2620:fe::fe"]}


def test_a_subnet_is_added_changed_and_removed(api_as, cast):
    made = api_as("admin", "POST", SUBNETS, json={**BODY, "hypervisor_group_id": cast.location.id, "enabled": True})
    assert made.status_code == 200
    data = made.json["data"]
    assert (data["family"], data["statistics"]["total"], data["nameservers"]) == (4, 13, ["9.9.9.9", "2620:fe::fe"])
    path = f"/api/v1/subnet/{data['id']}"
    changed = api_as("admin", "PATCH", path, json={"enabled": False}).json["data"]
    assert {k for k in data if data[k] != changed[k]} == {"enabled", "updated_at"}
    refused = api_as("admin", "PATCH", path, json={"cidr": "192.0.2.0/27"})
    assert (refused.status_code, refused.json["errors"].keys()) == (422, {"cidr"})
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "GET", path).status_code == 404
    assert create_address("192.0.2.2") is None


INVALID_FIELDS = {
    "name": ["v4", "", "x" * 65],
    "hypervisor_group_id": [UNKNOWN_ID, None],
    "cidr": ["192.0.2.1/28", "192.0.2.0", "10.0.0.0/8", "10.9.0.128/25", "x", 5, "fd99::/80"],
    "gateway": ["192.0.3.1", "fd00::1", "x"],
    "nameservers": [["x"], "9.9.9.9", ["9.9.9.9"] * 9],
    "enabled": [1, "true"],
}


@pytest.mark.parametrize("field", INVALID_FIELDS)
def test_wrong_values_are_refused_by_name(api_as, cast, field):
    for value in INVALID_FIELDS[field]:
        body = {**BODY, "hypervisor_group_id": cast.location.id, field: value}
        if field == "cidr":
            body["gateway"] = None
        answer = api_as("admin", "POST", SUBNETS, json=body)
        assert answer.status_code == 422, value
        assert [name.partition(".")[0] for name in answer.json["errors"]] == [field], value
    assert session.query(Subnet).count() == 2


def test_a_subnet_in_use_stays(api_as, cast, v4):
    cast.instance()
    refused = api_as("admin", "DELETE", v4)
    assert (refused.status_code, "in use" in refused.json["message"]) == (409, True)


def test_a_closed_subnet_gives_no_addresses(api_as, cast, v4):
    api_as("admin", "PATCH", v4, json={"enabled": False})
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    answer = api_as("owner", "POST", "/api/cloud-service/instances", json=body)
    assert (answer.status_code, answer.json["reason"]) == (422, "ipv4_not_available")


@pytest.mark.parametrize("path", [SUBNETS, "/api/v1/ips", "{v4}/ips"])
def test_a_list_takes_the_same_queries_for_many_rows(api_as, cast, queries, v4, path):
    api_as("admin", "GET", path.format(v4=v4))
    queries.clear()
    api_as("admin", "GET", path.format(v4=v4))
    few = len(queries)
    for number in range(30):
        subnets.create(session.merge(cast.location), name=f"s{number}", cidr=f"10.8.{number}.0/29")
        cast.instance()
    queries.clear()
    assert len(api_as("admin", "GET", path.format(v4=v4)).json["data"]) >= 30
    assert len(queries) == few


@pytest.mark.parametrize("rest", ["", "/ips", "/available-ips", "/statistics"])
def test_an_unknown_id_is_not_found(api_as, rest):
    """ENV-10"""
    assert api_as("admin", "GET", f"/api/v1/subnet/{UNKNOWN_ID}{rest}").status_code == 404
    assert api_as("admin", "PATCH", f"/api/v1/ip/{UNKNOWN_ID}", json={}).status_code == 404
