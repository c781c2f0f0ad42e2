"""Subnets on the operators' pages."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Subnet
from panel.services import subnets
from tests.support.html_pages import PARTIAL_HEADERS

SUBNETS_PATH = "/admin/subnets"


@pytest.fixture
def operator_browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def ipv4_subnet(rolled_back_app):
    return session.scalar(select(Subnet).where(Subnet.name == "v4"))


def find_address(ip):
    return session.scalar(select(Address).where(Address.ip == ip))


def test_subnet_pages_create_to_delete(operator_browser, cast):
    sent = {
        "name": "new",
        "hypervisor_group_id": cast.location.id,
        "cidr": "192.0.2.0/28",
        "gateway": "192.0.2.1",
        "nameservers": "9.9.9.9\r\n2620:fe::fe\r\n",
        "enabled": ["false", "true"],
    }
    answer = operator_browser.post(f"{SUBNETS_PATH}/new", data=sent)
    subnet = session.query(Subnet).filter_by(name="new").one()
    assert answer.headers["Location"] == f"{SUBNETS_PATH}/{subnet.id}"
    assert subnet.nameservers == ["9.9.9.9", "2620:fe::fe"]
    assert "13 of 13 free" in operator_browser.get(f"{SUBNETS_PATH}/{subnet.id}").text
    edited = {"name": "newer", "nameservers": "", "enabled": "false"}
    assert operator_browser.post(f"{SUBNETS_PATH}/{subnet.id}/edit", data=edited).status_code == 303
    assert (subnet.name, subnet.nameservers, subnet.enabled) == ("newer", [], False)
    assert operator_browser.post(f"{SUBNETS_PATH}/{subnet.id}/delete").status_code == 303
    assert find_address("192.0.2.2") is None


def test_form_errors_appear_at_fields(operator_browser, cast):
    sent = {"name": "new", "hypervisor_group_id": cast.location.id, "cidr": "192.0.2.0/28"}
    for field, value in (("cidr", "192.0.2.1/28"), ("cidr", "10.9.0.0/25"), ("gateway", "192.0.3.1"), ("name", "v4")):
        answer = operator_browser.post(f"{SUBNETS_PATH}/new", data={**sent, field: value})
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), field
    wrong = operator_browser.post(f"{SUBNETS_PATH}/new", data={**sent, "nameservers": "9.9.9.9\nx"})
    assert (wrong.status_code, 'id="wrong-nameservers"' in wrong.text) == (422, True)


def test_address_is_reserved_noted_and_released(operator_browser, ipv4_subnet):
    address = find_address("10.9.0.2")
    path = f"{SUBNETS_PATH}/addresses/{address.id}"
    post = lambda **data: operator_browser.post(path, data=data, headers=PARTIAL_HEADERS)  # noqa: E731
    assert post(reserved="true").headers["HX-Trigger"] == "changed"
    assert address.reserved
    post(note="Second router")
    assert (address.reserved, address.note) == (True, "Second router")
    page = operator_browser.get(f"{SUBNETS_PATH}/{ipv4_subnet.id}?use=reserved").text
    assert 'value="Second router"' in page
    assert "252 of 253 free" in page
    post(reserved="false", note="")
    assert (address.reserved, address.note) == (False, None)
    assert "between 0 and 255" in post(note="x" * 300).text


def test_address_in_use_names_instance_and_is_not_reserved(operator_browser, cast, ipv4_subnet):
    instance = cast.instance()
    page = operator_browser.get(f"{SUBNETS_PATH}/{ipv4_subnet.id}?use=used").text
    assert f"/admin/instances/{instance.id}" in page
    address = find_address(instance.ipv4)
    refused = operator_browser.post(f"{SUBNETS_PATH}/addresses/{address.id}", data={"reserved": "true"})
    assert "in use" in refused.text
    assert not address.reserved
    refused = operator_browser.post(f"{SUBNETS_PATH}/{ipv4_subnet.id}/delete")
    assert (refused.status_code, "in use" in refused.text) == (409, True)


def test_ipv6_subnet_page_counts_addresses_in_use(operator_browser, cast):
    cast.instance()
    v6 = session.scalar(select(Subnet).where(Subnet.name == "v6"))
    assert "1 address in use" in operator_browser.get(f"{SUBNETS_PATH}/{v6.id}").text


@pytest.mark.parametrize("address", [SUBNETS_PATH, SUBNETS_PATH + "/{v4}?use=used"])
def test_list_query_count_is_constant(operator_browser, cast, queries, ipv4_subnet, address):
    address = address.format(v4=ipv4_subnet.id)
    cast.instance()
    operator_browser.get(address)
    queries.clear()
    operator_browser.get(address)
    few = len(queries)
    for number in range(29):
        subnets.create(session.merge(cast.location), name=f"x{number}", cidr=f"10.8.{number}.0/29")
        cast.instance()
    queries.clear()
    assert operator_browser.get(address).text.count('<tr id="') == 25
    assert len(queries) <= few
