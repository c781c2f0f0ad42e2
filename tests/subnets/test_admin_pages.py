"""Subnets on the operators' pages."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Subnet
from panel.services import subnets
from tests.test_pages import PARTIAL_HEADERS

SUBNETS = "/admin/subnets"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


@pytest.fixture
def v4(rolled_back_app):
    return session.scalar(select(Subnet).where(Subnet.name == "v4"))


def create_address(ip):
    return session.scalar(select(Address).where(Address.ip == ip))


def test_a_subnet_is_added_changed_and_removed(operator, cast):
    sent = {
        "name": "new",
        "hypervisor_group_id": cast.location.id,
        "cidr": "192.0.2.0/28",
        "gateway": "192.0.2.1",
        "nameservers": "9.9.9.9\r\n2620:fe::fe\r\n",
        "enabled": ["false", "true"],
    }
    answer = operator.post(f"{SUBNETS}/new", data=sent)
    subnet = session.query(Subnet).filter_by(name="new").one()
    assert answer.headers["Location"] == f"{SUBNETS}/{subnet.id}"
    assert subnet.nameservers == ["9.9.9.9", "2620:fe::fe"]
    assert "13 of 13 free" in operator.get(f"{SUBNETS}/{subnet.id}").text
    edited = {"name": "newer", "nameservers": "", "enabled": "false"}
    assert operator.post(f"{SUBNETS}/{subnet.id}/edit", data=edited).status_code == 303
    assert (subnet.name, subnet.nameservers, subnet.enabled) == ("newer", [], False)
    assert operator.post(f"{SUBNETS}/{subnet.id}/delete").status_code == 303
    assert create_address("192.0.2.2") is None


def test_mistakes_stand_beside_their_fields(operator, cast):
    sent = {"name": "new", "hypervisor_group_id": cast.location.id, "cidr": "192.0.2.0/28"}
    for field, value in (("cidr", "192.0.2.1/28"), ("cidr", "10.9.0.0/25"), ("gateway", "192.0.3.1"), ("name", "v4")):
        answer = operator.post(f"{SUBNETS}/new", data={**sent, field: value})
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), field
    wrong = operator.post(f"{SUBNETS}/new", data={**sent, "nameservers": "9.9.9.9\nx"})
    assert (wrong.status_code, 'id="wrong-nameservers"' in wrong.text) == (422, True)


def test_an_address_is_reserved_noted_and_released(operator, v4):
    address = create_address("10.9.0.2")
    post = lambda **data: operator.post(f"{SUBNETS}/addresses/{address.id}", data=data, headers=PARTIAL_HEADERS)  # noqa: E731
    assert post(reserved="true").headers["HX-Trigger"] == "changed"
    assert address.reserved
    post(note="Second router")
    assert (address.reserved, address.note) == (True, "Second router")
    page = operator.get(f"{SUBNETS}/{v4.id}?use=reserved").text
    assert 'value="Second router"' in page
    assert "252 of 253 free" in page
    post(reserved="false", note="")
    assert (address.reserved, address.note) == (False, None)
    assert "between 0 and 255" in post(note="x" * 300).text


def test_an_address_in_use_names_its_instance_and_stays(operator, cast, v4):
    instance = cast.instance()
    page = operator.get(f"{SUBNETS}/{v4.id}?use=used").text
    assert f"/admin/instances/{instance.id}" in page
    address = create_address(instance.ipv4)
    refused = operator.post(f"{SUBNETS}/addresses/{address.id}", data={"reserved": "true"})
    assert "in use" in refused.text
    assert not address.reserved
    refused = operator.post(f"{SUBNETS}/{v4.id}/delete")
    assert (refused.status_code, "in use" in refused.text) == (409, True)


def test_ipv6_shows_what_is_in_use(operator, cast):
    cast.instance()
    v6 = session.scalar(select(Subnet).where(Subnet.name == "v6"))
    assert "1 address in use" in operator.get(f"{SUBNETS}/{v6.id}").text


@pytest.mark.parametrize("address", [SUBNETS, SUBNETS + "/{v4}?use=used"])
def test_a_list_takes_the_same_queries_for_many_rows(operator, cast, queries, v4, address):
    address = address.format(v4=v4.id)
    cast.instance()
    operator.get(address)
    queries.clear()
    operator.get(address)
    few = len(queries)
    for number in range(29):
        subnets.create(session.merge(cast.location), name=f"x{number}", cidr=f"10.8.{number}.0/29")
        cast.instance()
    queries.clear()
    assert operator.get(address).text.count('<tr id="') == 25
    assert len(queries) <= few
