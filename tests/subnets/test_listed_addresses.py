"""Adding addresses to subnets and removing them (requirement 12: POST /api/v1/ips, DELETE /api/v1/ip/{id})."""

import pytest

from panel.core.db import session
from panel.models import Address, Subnet
from panel.services import subnets

IPS = "/api/v1/ips"


@pytest.fixture
def v4(cast):
    return session.query(Subnet).filter_by(name="v4").one()


@pytest.fixture
def v6(cast):
    return session.query(Subnet).filter_by(name="v6").one()


@pytest.fixture
def add_addresses(api_as):
    return lambda subnet, ip, **more: api_as("admin", "POST", IPS, json={"subnet_id": subnet.id, "ip": ip, **more})


def row_of(ip):
    return session.query(Address).filter_by(ip=ip).one_or_none()


def test_a_removed_address_is_not_given_out_until_it_is_added_again(api_as, add_addresses, cast, v4):
    assert api_as("admin", "DELETE", f"/api/v1/ip/{row_of('10.9.0.2').id}").status_code == 200
    assert row_of("10.9.0.2") is None
    assert cast.instance().ipv4 == "10.9.0.3"
    answer = add_addresses(v4, "10.9.0.2", note="back")
    assert answer.status_code == 200
    expected = {"ip": "10.9.0.2", "family": 4, "reserved": False, "note": "back", "interface_id": None}
    assert expected.items() <= answer.json["data"].items()
    assert cast.instance().ipv4 == "10.9.0.2"


def test_an_ipv6_address_is_reserved_before_its_turn(add_addresses, cast, v6):
    assert add_addresses(v6, "fd99:0::2", reserved=True).json["data"]["ip"] == "fd99::2"
    assert cast.instance().ipv6 == "fd99::3"


def test_an_address_in_use_stays(api_as, cast):
    held = row_of(cast.instance().ipv4)
    answer = api_as("admin", "DELETE", f"/api/v1/ip/{held.id}")
    assert (answer.status_code, answer.json["reason"]) == (409, "address_in_use")
    assert row_of(held.ip)


@pytest.mark.parametrize(
    "ip", ["10.9.0.0", "10.9.0.255", "10.9.0.1", "10.9.0.7", "10.8.0.1", "fd99::7", "10.9.0.4/30", "x", "", 7, None]
)
def test_addresses_that_are_refused(add_addresses, v4, ip):
    answer = add_addresses(v4, ip)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ip"])


def test_prefixes_of_a_routed_subnet(api_as, add_addresses, cast):
    made = subnets.create(cast.location, name="p", cidr="fd98::/48", kind="routed", delegated_length=64)
    assert add_addresses(made, "fd98:0:0:2::/64").json["data"]["ip"] == "fd98:0:0:2::/64"
    for wrong in ("fd98:0:0:3::", "fd98:0:0:4::/56", "fd98:0:0:2::/64"):
        assert add_addresses(made, wrong).status_code == 422, wrong


def test_an_unknown_subnet_is_the_fault_of_its_field(api_as, cast):
    answer = api_as("admin", "POST", IPS, json={"subnet_id": cast.owner.id, "ip": "10.9.0.2"})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["subnet_id"])


def test_other_tokens_are_refused(api_as, cast, v4):
    body = {"subnet_id": v4.id, "ip": "10.9.0.2"}
    for who in ("owner", "billing", "outsider"):
        assert api_as(who, "POST", IPS, json=body).status_code in (401, 403)
        assert api_as(who, "DELETE", f"/api/v1/ip/{row_of('10.9.0.2').id}").status_code in (401, 403)
