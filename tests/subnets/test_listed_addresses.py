"""Adding addresses to subnets and removing them (POST /api/v1/ips, DELETE /api/v1/ip/{id})."""

import pytest
from sqlalchemy import select
from sqlalchemy.orm import joinedload

from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Address, Interface, Subnet
from panel.services import subnets

IPS_PATH = "/api/v1/ips"


@pytest.fixture
def ipv4_subnet(cast):
    return session.query(Subnet).filter_by(name="v4").one()


@pytest.fixture
def ipv6_subnet(cast):
    return session.query(Subnet).filter_by(name="v6").one()


@pytest.fixture
def add_addresses(api_as):
    return lambda subnet, ip, **fields: api_as(
        "admin", "POST", IPS_PATH, json={"subnet_id": subnet.id, "ip": ip, **fields}
    )


def find_address(ip):
    return session.query(Address).filter_by(ip=ip).one_or_none()


def test_deleted_address_is_not_allocated_until_added_again(api_as, add_addresses, cast, ipv4_subnet):
    assert api_as("admin", "DELETE", f"/api/v1/ip/{find_address('10.9.0.2').id}").status_code == 200
    assert find_address("10.9.0.2") is None
    assert cast.instance().ipv4 == "10.9.0.3"
    answer = add_addresses(ipv4_subnet, "10.9.0.2", note="back")
    assert answer.status_code == 200
    expected = {"ip": "10.9.0.2", "family": 4, "reserved": False, "note": "back", "interface_id": None}
    assert expected.items() <= answer.json["data"].items()
    assert cast.instance().ipv4 == "10.9.0.2"


def test_ipv6_address_can_be_reserved_before_allocation(add_addresses, cast, ipv6_subnet):
    assert add_addresses(ipv6_subnet, "fd99:0::2", reserved=True).json["data"]["ip"] == "fd99::2"
    assert cast.instance().ipv6 == "fd99::3"


def test_address_in_use_is_not_deleted(api_as, cast):
    address = find_address(cast.instance().ipv4)
    answer = api_as("admin", "DELETE", f"/api/v1/ip/{address.id}")
    assert (answer.status_code, answer.json["reason"]) == (409, "address_in_use")
    assert find_address(address.ip)


@pytest.mark.parametrize(
    "ip", ["10.9.0.0", "10.9.0.255", "10.9.0.1", "10.9.0.7", "10.8.0.1", "fd99::7", "10.9.0.4/30", "x", "", 7, None]
)
def test_invalid_addresses_are_refused(add_addresses, ipv4_subnet, ip):
    answer = add_addresses(ipv4_subnet, ip)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ip"])


def test_prefixes_can_be_added_to_routed_subnet(api_as, add_addresses, cast):
    subnet = subnets.create(cast.location, name="p", cidr="fd98::/48", kind="routed", delegated_length=64)
    assert add_addresses(subnet, "fd98:0:0:2::/64").json["data"]["ip"] == "fd98:0:0:2::/64"
    for wrong in ("fd98:0:0:3::", "fd98:0:0:4::/56", "fd98:0:0:2::/64"):
        assert add_addresses(subnet, wrong).status_code == 422, wrong


def test_unknown_subnet_is_field_error(api_as, cast):
    answer = api_as("admin", "POST", IPS_PATH, json={"subnet_id": cast.owner.id, "ip": "10.9.0.2"})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["subnet_id"])


def test_non_admin_tokens_are_refused(api_as, cast, ipv4_subnet):
    body = {"subnet_id": ipv4_subnet.id, "ip": "10.9.0.2"}
    for caller in ("owner", "billing", "outsider"):
        assert api_as(caller, "POST", IPS_PATH, json=body).status_code in (401, 403)
        assert api_as(caller, "DELETE", f"/api/v1/ip/{find_address('10.9.0.2').id}").status_code in (401, 403)


def test_address_that_was_loaded_with_its_instance_can_be_locked(cast):
    """PostgreSQL refuses to lock the rows of an outer join, so reserving such an address answered 500."""
    query = select(Address).where(Address.ip == cast.instance().ipv4)
    address = session.scalars(query.options(joinedload(Address.interface).joinedload(Interface.instance))).one()
    for change in (lambda: subnets.set_reserved(address, True), lambda: subnets.delete_address(address)):
        with pytest.raises(Conflict):
            change()
