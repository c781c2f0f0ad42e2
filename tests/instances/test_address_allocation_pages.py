"""Prefixes and private addresses on the pages, for customers and operators."""

import pytest

from panel.core.db import session
from panel.models import Instance, Plan, Subnet
from panel.services import subnets
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline

PREFIX_POOL_CIDR, IPV6_PREFIX, PRIVATE_IPV4 = "2001:db8::/48", "2001:db8::/64", "10.20.0.1"


@pytest.fixture
def instance(cast):
    subnets.create(cast.location, name="routed", kind="routed", cidr=PREFIX_POOL_CIDR)
    subnets.create(cast.location, name="private", kind="private", cidr="10.20.0.0/28")
    cast.plan.ipv6_prefixes = cast.plan.private_ipv4 = 1
    session.commit()
    return cast.instance()


def test_network_tab_removes_and_readds_prefix_and_private_address(browser_as, instance):
    browser, change = browser_as("owner"), f"/instances/{instance.id}/ips"
    tab = f"/instances/{instance.id}/network"
    page = browser.get(tab).text
    assert HtmlOutline(page).open == []
    assert (IPV6_PREFIX in page, PRIVATE_IPV4 in page, "Routed" in page, "Private" in page) == (True,) * 4
    assert "included in the plan" not in page
    for address in (IPV6_PREFIX, PRIVATE_IPV4):
        assert browser.post(change, data={"action": "remove", "ips": address}).headers["Location"] == tab
    page = browser.get(tab).text
    assert ("Add IPv6 prefix" in page, "Add private IPv4 address" in page) == (True, True)
    assert "Add IPv4 address" not in page
    browser.post(change, data={"action": "add", "kind": "routed", "family": "6"})
    browser.post(change, data={"action": "add", "kind": "private", "family": "4"})
    loaded_instance = session.get(Instance, instance.id)
    assert ([prefix.ip for prefix in loaded_instance.prefixes], loaded_instance.private_ipv4) == (
        [IPV6_PREFIX],
        PRIVATE_IPV4,
    )
    assert "included in the plan" not in browser.get(tab).text


def test_overview_shows_prefix_and_private_address(browser_as, instance):
    page = browser_as("owner").get(f"/instances/{instance.id}").text
    assert ("IPv6 prefix" in page, IPV6_PREFIX in page, "Private IPv4" in page, PRIVATE_IPV4 in page) == (True,) * 4


def test_create_page_shows_addresses_of_plan(browser_as, cast, instance):
    page = browser_as("owner").get("/instances/new").text
    assert "1 IPv4, 1 IPv6, 1 IPv6 prefix, 1 private IPv4" in page
    session.get(Plan, cast.plan.id).ipv6_prefixes = 0
    session.commit()
    form = {"preview": "1", "location_id": cast.location.id, "plan_id": cast.plan.id}
    part = browser_as("owner").post("/instances/new", data=form, headers=PARTIAL_HEADERS).text
    assert ("1 IPv4, 1 IPv6, 1 private IPv4" in part, "<html" in part) == (True, False)


def test_operator_removes_and_adds_prefix_and_private_address(browser_as, instance):
    browser, path = browser_as("admin"), f"/admin/instances/{instance.id}"
    page = browser.get(f"{path}/network").text
    assert HtmlOutline(page).open == []
    for shown in (page, browser.get(f"{path}/network", headers=PARTIAL_HEADERS).text):
        assert (IPV6_PREFIX in shown, PRIVATE_IPV4 in shown) == (True, True)
    assert IPV6_PREFIX in browser.get(path).text
    browser.post(f"{path}/ips", data={"action": "remove", "ips": IPV6_PREFIX}, headers=PARTIAL_HEADERS)
    assert session.get(Instance, instance.id).prefixes == []
    browser.post(
        f"{path}/ips", data={"action": "add", "kind": "routed", "family": "4", "ips": ""}, headers=PARTIAL_HEADERS
    )
    browser.post(f"{path}/ips", data={"action": "add", "kind": "private", "family": "4", "ips": "10.20.0.5"})
    loaded_instance = session.get(Instance, instance.id)
    assert [prefix.ip for prefix in loaded_instance.prefixes] == [IPV6_PREFIX]
    assert {address.ip for address in loaded_instance.addresses if address.kind == "private"} == {
        PRIVATE_IPV4,
        "10.20.0.5",
    }


def test_operator_creates_routed_subnet(browser_as, cast):
    operator = browser_as("admin")
    sent = {
        "name": "pool",
        "hypervisor_group_id": cast.location.id,
        "kind": "routed",
        "cidr": PREFIX_POOL_CIDR,
        "enabled": "true",
    }
    for wrong, field in (({"delegated_length": "40"}, "delegated_length"), ({"kind": "private"}, "kind")):
        answer = operator.post("/admin/subnets/new", data={**sent, **wrong})
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), field
    answer = operator.post("/admin/subnets/new", data={**sent, "delegated_length": "56"})
    subnet = session.query(Subnet).filter_by(name="pool").one()
    assert (answer.headers["Location"], subnet.delegated_length) == (f"/admin/subnets/{subnet.id}", 56)
    session.get(Plan, cast.plan.id).ipv6_prefixes = 1
    session.commit()
    cast.instance()
    page = operator.get(f"/admin/subnets/{subnet.id}").text
    assert ("2001:db8::/56" in page, "1 prefix in use" in page, "256 /56 in total" in page) == (True, True, True)
    for headers in ({}, PARTIAL_HEADERS):
        assert "Routed" in operator.get("/admin/subnets", headers=headers).text
        assert "2001:db8::/56" in operator.get(f"/admin/subnets/{subnet.id}", headers=headers).text


def test_operator_sets_prefix_and_private_address_counts_of_plan(browser_as, cast):
    operator, plan = browser_as("admin"), cast.plan
    values = {"ipv6_prefixes": "2", "private_ipv4": "1"}
    assert operator.post(f"/admin/plans/{plan.id}", data=values).status_code == 303
    loaded_plan = session.get(Plan, plan.id)
    assert (loaded_plan.ipv6_prefixes, loaded_plan.private_ipv4, loaded_plan.ipv4) == (2, 1, 1)
    for headers in ({}, PARTIAL_HEADERS):
        assert "1 v4, 1 v6, 2 prefixes, 1 private" in operator.get("/admin/plans", headers=headers).text
    wrong = operator.post(f"/admin/plans/{plan.id}", data={"ipv6_prefixes": "17"})
    assert (wrong.status_code, 'id="wrong-ipv6_prefixes"' in wrong.text) == (422, True)
    assert 'value="2"' in operator.get(f"/admin/plans/{plan.id}").text


def test_header_and_list_prefer_public_addresses(browser_as, cast):
    """A private address, which sorts first, is shown only without a public one."""
    subnets.create(cast.location, name="private", kind="private", cidr="10.2.0.0/28")
    cast.plan.private_ipv4 = 1
    session.commit()
    instance = cast.instance()
    extract_header = lambda page: page.partition('class="tabs"')[0]  # noqa: E731
    for caller, path in (("owner", "/instances"), ("admin", "/admin/instances")):
        assert "10.9.0.2" in browser_as(caller).get(path).text
        assert "10.2.0.1" not in browser_as(caller).get(path).text
    page = extract_header(browser_as("owner").get(f"/instances/{instance.id}").text)
    assert ("10.9.0.2" in page, "fd99::2" in page, "10.2.0.1" in page) == (True, True, False)
    session.get(Plan, cast.plan.id).ipv4 = session.get(Plan, cast.plan.id).ipv6 = 0
    session.commit()
    alone = cast.instance()
    assert "10.2.0.2" in extract_header(browser_as("owner").get(f"/instances/{alone.id}").text)
    assert "10.2.0.2" in browser_as("owner").get("/instances").text
