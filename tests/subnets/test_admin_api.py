"""Subnets and addresses in the operators' API."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Subnet
from panel.services import subnets
from tests.support.cast import UNKNOWN_ID

SUBNETS_PATH = "/api/v1/subnets"


@pytest.fixture
def ipv4_subnet_path(rolled_back_app):
    return f"/api/v1/subnet/{session.scalar(select(Subnet.id).where(Subnet.name == 'v4'))}"


@pytest.fixture
def list_available_ips(api_as, ipv4_subnet_path):
    """Return a function that lists the available addresses and checks their number in the statistics (SUB-05)."""

    def read():
        rows = api_as("admin", "GET", f"{ipv4_subnet_path}/available-ips").json["data"]
        assert api_as("admin", "GET", f"{ipv4_subnet_path}/statistics").json["data"]["available"] == len(rows)
        return [row["ip"] for row in rows]

    return read


def find_address(ip):
    return session.scalar(select(Address).where(Address.ip == ip))


def test_allocated_address_is_not_available(api_as, cast, list_available_ips):
    """SUB-01, SUB-05"""
    before = list_available_ips()
    assert (len(before), before[0], before[-1]) == (253, "10.9.0.2", "10.9.0.254")
    instance = cast.instance()
    assert set(before) - set(list_available_ips()) == {instance.ipv4}


def test_reserved_address_is_not_available(api_as, cast, ipv4_subnet_path, list_available_ips):
    """SUB-02, SUB-05"""
    address = find_address("10.9.0.2")
    answer = api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": True, "note": "router"})
    assert (answer.json["data"]["reserved"], answer.json["data"]["note"]) == (True, "router")
    assert "10.9.0.2" not in list_available_ips()
    assert api_as("admin", "GET", f"{ipv4_subnet_path}/statistics").json["data"] == {
        "total": 253,
        "available": 252,
        "reserved": 1,
        "used": 0,
    }
    assert cast.instance().ipv4 == "10.9.0.3"
    api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": False})
    assert "10.9.0.2" in list_available_ips()


def test_address_in_use_cannot_be_reserved(api_as, cast, list_available_ips):
    address = find_address(cast.instance().ipv4)
    refused = api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": True})
    assert (refused.status_code, "in use" in refused.json["message"]) == (409, True)
    assert api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"note": "n"}).json["data"]["note"] == "n"
    assert api_as("admin", "PATCH", f"/api/v1/ip/{address.id}", json={"reserved": 1}).status_code == 422


def test_available_addresses_are_paginated(api_as, ipv4_subnet_path):
    answer = api_as("admin", "GET", f"{ipv4_subnet_path}/available-ips?per_page=100&page=3")
    assert (len(answer.json["data"]), answer.json["meta"]["total"]) == (53, 253)
    assert api_as("admin", "GET", f"{ipv4_subnet_path}/available-ips?per_page=101").status_code == 422


def test_address_list_names_instance(api_as, cast, ipv4_subnet_path):
    instance = cast.instance()
    rows = api_as("admin", "GET", f"{ipv4_subnet_path}/ips?use=used").json["data"]
    assert [(row["ip"], row["instance"]) for row in rows] == [
        (instance.ipv4, {"id": instance.id, "name": instance.name})
    ]
    every = api_as("admin", "GET", "/api/v1/ips?search=10.9.0.25").json["data"]
    assert [row["ip"] for row in every] == ["10.9.0.25", *(f"10.9.0.25{digit}" for digit in range(5))]
    assert api_as("admin", "GET", f"{ipv4_subnet_path}/ips?use=bad").status_code == 422


def test_ipv6_addresses_are_created_on_allocation(api_as, cast):
    path = f"/api/v1/subnet/{session.scalar(select(Subnet.id).where(Subnet.name == 'v6'))}"
    before = api_as("admin", "GET", f"{path}/statistics").json["data"]
    cast.instance()
    after = api_as("admin", "GET", f"{path}/statistics").json["data"]
    assert (before["used"], after["used"], after["available"]) == (0, 1, 0)
    assert api_as("admin", "GET", f"{path}/available-ips").json["data"] == []


SUBNET_BODY = {"name": "new", "cidr": "192.0.2.0/28", "gateway": "192.0.2.1", "nameservers": ["9.9.9.9", "2620:fe::fe"]}


def test_subnet_create_update_and_delete(api_as, cast):
    subnet = api_as(
        "admin", "POST", SUBNETS_PATH, json={**SUBNET_BODY, "hypervisor_group_id": cast.location.id, "enabled": True}
    )
    assert subnet.status_code == 200
    data = subnet.json["data"]
    assert (data["family"], data["statistics"]["total"], data["nameservers"]) == (4, 13, ["9.9.9.9", "2620:fe::fe"])
    path = f"/api/v1/subnet/{data['id']}"
    changed = api_as("admin", "PATCH", path, json={"enabled": False}).json["data"]
    assert {k for k in data if data[k] != changed[k]} == {"enabled", "updated_at"}
    refused = api_as("admin", "PATCH", path, json={"cidr": "192.0.2.0/27"})
    assert (refused.status_code, refused.json["errors"].keys()) == (422, {"cidr"})
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "GET", path).status_code == 404
    assert find_address("192.0.2.2") is None


INVALID_FIELD_VALUES = {
    "name": ["v4", "", "x" * 65],
    "hypervisor_group_id": [UNKNOWN_ID, None],
    "cidr": ["192.0.2.1/28", "192.0.2.0", "10.0.0.0/8", "10.9.0.128/25", "x", 5, "fd99::/80"],
    "gateway": ["192.0.3.1", "fd00::1", "x"],
    "nameservers": [["x"], "9.9.9.9", ["9.9.9.9"] * 9],
    "enabled": [1, "true"],
}


@pytest.mark.parametrize("field", INVALID_FIELD_VALUES)
def test_invalid_subnet_fields_are_refused(api_as, cast, field):
    for value in INVALID_FIELD_VALUES[field]:
        body = {**SUBNET_BODY, "hypervisor_group_id": cast.location.id, field: value}
        if field == "cidr":
            body["gateway"] = None
        answer = api_as("admin", "POST", SUBNETS_PATH, json=body)
        assert answer.status_code == 422, value
        assert [name.partition(".")[0] for name in answer.json["errors"]] == [field], value
    assert session.query(Subnet).count() == 2


def test_subnet_in_use_is_not_deleted(api_as, cast, ipv4_subnet_path):
    cast.instance()
    refused = api_as("admin", "DELETE", ipv4_subnet_path)
    assert (refused.status_code, "in use" in refused.json["message"]) == (409, True)


def test_disabled_subnet_allocates_no_addresses(api_as, cast, ipv4_subnet_path):
    api_as("admin", "PATCH", ipv4_subnet_path, json={"enabled": False})
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    answer = api_as("owner", "POST", "/api/cloud-service/instances", json=body)
    assert (answer.status_code, answer.json["reason"]) == (422, "ipv4_not_available")


@pytest.mark.parametrize("path", [SUBNETS_PATH, "/api/v1/ips", "{v4}/ips"])
def test_list_query_count_is_constant(api_as, cast, queries, ipv4_subnet_path, path):
    api_as("admin", "GET", path.format(v4=ipv4_subnet_path))
    queries.clear()
    api_as("admin", "GET", path.format(v4=ipv4_subnet_path))
    few = len(queries)
    for number in range(30):
        subnets.create(session.merge(cast.location), name=f"s{number}", cidr=f"10.8.{number}.0/29")
        cast.instance()
    queries.clear()
    assert len(api_as("admin", "GET", path.format(v4=ipv4_subnet_path)).json["data"]) >= 30
    assert len(queries) == few


@pytest.mark.parametrize("suffix", ["", "/ips", "/available-ips", "/statistics"])
def test_unknown_id_returns_404(api_as, suffix):
    """ENV-10"""
    assert api_as("admin", "GET", f"/api/v1/subnet/{UNKNOWN_ID}{suffix}").status_code == 404
    assert api_as("admin", "PATCH", f"/api/v1/ip/{UNKNOWN_ID}", json={}).status_code == 404
