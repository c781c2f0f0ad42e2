"""The network of an instance on the pages, for its owner and for operators."""

import re

import pytest

from panel.core.db import session
from panel.models import Instance, MonthlyTraffic
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline


@pytest.fixture
def instance(cast):
    cast.plan.ipv4 = 2
    session.commit()
    return cast.instance(display_name="Shop <front>")


def get_tab_path(instance):
    return f"/instances/{instance.id}/network"


def get_address(instance, ip=None):
    return next(
        address for address in session.get(Instance, instance.id).addresses if address.ip == (ip or instance.ipv4)
    )


def test_addresses_are_removed_made_primary_and_added(browser_as, cast, instance):
    browser, change = browser_as("owner"), f"/instances/{instance.id}/ips"
    page = browser.get(get_tab_path(instance)).text
    assert HtmlOutline(page).open == []
    first, second = [address.ip for address in session.get(Instance, instance.id).addresses if address.family == 4]
    assert second in page
    assert "Add IPv4 address" not in page
    refused = browser.post(change, data={"action": "remove", "ips": first}, follow_redirects=True)
    assert "Make another address the primary one first." in refused.text
    assert browser.post(change, data={"action": "set-primary", "ips": second}).headers["Location"] == get_tab_path(
        instance
    )
    assert session.get(Instance, instance.id).ipv4 == second
    browser.post(change, data={"action": "remove", "ips": first})
    page = browser.get(get_tab_path(instance)).text
    assert "Add IPv4 address" in page
    browser.post(change, data={"action": "add", "family": "4"})
    assert len(session.get(Instance, instance.id).addresses) == 3
    assert browser_as("viewer").post(change, data={"action": "add", "family": "4"}).status_code == 403
    assert browser_as("outsider").post(change, data={"action": "add", "family": "4"}).status_code == 404


def test_rdns_is_set_and_cleared_on_page(browser_as, instance):
    browser, address = browser_as("owner"), get_address(instance)
    place = f"/instances/{instance.id}/ip/{address.id}"
    assert "Set a name" in browser.get(get_tab_path(instance)).text
    assert HtmlOutline(browser.get(place).text).open == []
    refused = browser.post(place, data={"rdns": "not a name"}, headers=PARTIAL_HEADERS)
    assert ("must be a valid hostname" in refused.text, "<html" in refused.text) == (True, False)
    assert browser.post(place, data={"rdns": "shop.example.com"}).headers["Location"] == get_tab_path(instance)
    assert "shop.example.com" in browser.get(get_tab_path(instance)).text
    browser.post(place, data={"rdns": ""})
    assert get_address(instance).rdns is None
    assert browser_as("outsider").get(place).status_code == 404


def test_traffic_history_and_disconnect_reason_are_shown(browser_as, instance):
    session.add(MonthlyTraffic(instance_id=instance.id, month="2020-02", received=5 * 10**9, sent=0))
    card = session.get(Instance, instance.id).interfaces[0]
    card.received = 12 * 10**9
    session.commit()
    page = browser_as("owner").get(get_tab_path(instance)).text
    assert "12 GB of" in page
    assert re.search(r"February 2020</td><td[^>]*>5 GB</td>", page)
    assert "The network is disconnected" not in page
    card.disconnect_reason = "traffic"
    session.commit()
    assert "The traffic of this period is used up" in browser_as("owner").get(get_tab_path(instance)).text


def test_operator_changes_network_of_instance(browser_as, instance):
    browser, place = browser_as("admin"), f"/admin/instances/{instance.id}/network"
    assert f'href="{place}"' in browser.get(f"/admin/instances/{instance.id}").text
    page = browser.get(place)
    assert (page.status_code, HtmlOutline(page.text).open) == (200, [])
    assert "Shop &lt;front&gt;" in page.text
    browser.post(f"{place}/limits", data={"bandwidth": "50", "port_speed": "20"})
    row = session.get(Instance, instance.id)
    assert (row.bandwidth, row.interfaces[0].port_speed) == (50, 20)
    refused = browser.post(f"{place}/limits", data={"bandwidth": "-1", "port_speed": "20"})
    assert refused.status_code == 422
    row.interfaces[0].received = 9
    session.commit()
    assert browser.post(f"{place}/reset").headers["Location"] == place
    assert session.get(Instance, instance.id).interfaces[0].received == 0
    browser.post(f"{place}/disconnect")
    assert "Disconnected by an operator." in browser.get(place).text
    assert "An operator disconnected it." in browser_as("owner").get(get_tab_path(instance)).text
    browser.post(f"{place}/connect")
    assert session.get(Instance, instance.id).interfaces[0].disconnect_reason is None
    browser.post(f"/admin/instances/{instance.id}/ips", data={"action": "add", "family": "4", "ips": "10.9.0.77"})
    assert get_address(instance, "10.9.0.77")
    browser.post(f"/admin/instances/{instance.id}/ip/{get_address(instance).id}", data={"rdns": "a.example.com"})
    assert get_address(instance).rdns == "a.example.com"
    wrong = browser.post(
        f"/admin/instances/{instance.id}/ips", data={"action": "add", "ips": "192.0.2.9"}, follow_redirects=True
    )
    assert "no such address" in wrong.text
    assert browser_as("owner").get(place).status_code == 403
