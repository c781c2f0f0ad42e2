"""Security groups and IP sets on the pages."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import IpSet, IpSetEntry, SecurityGroup, SecurityGroupMember, SecurityRule
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline

GROUPS_PATH, IP_SETS_PATH = "/security-groups", "/ip-sets"
RULE_FORM = {
    "direction": "ingress",
    "protocol": "tcp",
    "ip_version": "ipv4",
    "ports": "80-443",
}
EMPTY_RULE_FIELDS = {"cidr": "", "remote_group_id": "", "ip_set_id": "", "description": ""}


@pytest.fixture
def group(cast):
    created_group = SecurityGroup(account_id=cast.owner.id, name="Web <servers>", description=None)
    session.add(created_group)
    session.commit()
    return created_group


@pytest.fixture
def platform_group(rolled_back_app):
    created_group = SecurityGroup(account_id=None, name="Everywhere", description=None)
    created_group.rules = [SecurityRule(direction="egress", protocol="all", ip_version="ipv4")]
    session.add_all([created_group, IpSet(account_id=None, name="Monitors", ip_version="ipv4")])
    session.commit()
    return created_group


def test_group_pages_create_to_delete(browser_as):
    browser = browser_as("owner")
    assert "No security group yet" in browser.get(GROUPS_PATH).text
    browser.post(f"{GROUPS_PATH}/new", data={"name": "Web", "description": ""})
    created_group = session.scalar(select(SecurityGroup))
    place = f"{GROUPS_PATH}/{created_group.id}"
    assert HtmlOutline(browser.get(place).text).open == []
    assert browser.post(f"{place}/edit", data={"name": "Front", "description": "x"}).headers["Location"] == place
    assert "Front" in browser.get(GROUPS_PATH).text
    assert browser.post(f"{place}/edit", data={"name": "x" * 256}).status_code == 422
    assert browser.post(f"{place}/delete").headers["Location"] == GROUPS_PATH
    assert session.scalar(select(SecurityGroup)) is None


def test_group_page_adds_and_removes_rules(browser_as, group):
    browser, place = browser_as("owner"), f"{GROUPS_PATH}/{group.id}"
    assert browser.post(f"{place}/rules", data={**RULE_FORM, **EMPTY_RULE_FIELDS}).headers["Location"] == place
    rule = session.scalar(select(SecurityRule))
    assert (rule.port_range_min, rule.port_range_max, rule.cidr, rule.description) == (80, 443, None, None)
    page = browser.get(place).text
    assert "80\u2013443" in page
    assert "Anywhere" in page
    refused = browser.post(
        f"{place}/rules", data={**RULE_FORM, **EMPTY_RULE_FIELDS, "cidr": "::/0"}, headers=PARTIAL_HEADERS
    )
    assert "Must have the rule&#39;s IP version." in refused.text
    assert "<html" not in refused.text
    again = browser.post(f"{place}/rules", data={**RULE_FORM, **EMPTY_RULE_FIELDS})
    assert (again.status_code, "a rule like this already" in again.text) == (422, True)
    browser.post(f"{place}/rules", data={**RULE_FORM, **EMPTY_RULE_FIELDS, "remote_group_id": group.id})
    assert "Web &lt;servers&gt;" in browser.get(place).text
    for security_rule in session.scalars(select(SecurityRule)).all():
        assert browser.post(f"{place}/rule/{security_rule.id}/delete").headers["Location"] == place
    assert session.scalar(select(SecurityRule)) is None


def test_instances_are_attached_on_group_and_network_pages(browser_as, cast, group):
    browser, place = browser_as("owner"), f"{GROUPS_PATH}/{group.id}"
    one, two = cast.instance(display_name="One"), cast.instance(display_name="Two")
    browser.post(f"{place}/attach", data={"instance_ids": [one.id, two.id], "confirmed": "1"})
    assert browser.get(place).text.count('<tr id="instance-') == 2
    tab = f"/instances/{one.id}/network"
    assert f'href="{place}"' in browser.get(tab).text
    assert browser.post(f"{place}/detach", data={"instance_ids": one.id, "back": one.id}).headers["Location"] == tab
    assert "All traffic is allowed" in browser.get(tab).text
    again = {"instance_ids": one.id, "back": one.id, "confirmed": "1"}
    assert browser.post(f"{place}/attach", data=again).headers["Location"] == tab
    assert len(session.scalars(select(SecurityGroupMember)).all()) == 2
    empty = browser.post(f"{place}/attach", data={}, follow_redirects=True)
    assert "Select an instance first" in empty.text
    foreign = browser.post(
        f"{place}/attach", data={"instance_ids": cast.instance("outsider").id}, follow_redirects=True
    )
    assert "no such instance" in foreign.text


def test_platform_group_and_ip_set_are_read_only(browser_as, cast, platform_group):
    browser, place = browser_as("owner"), f"{GROUPS_PATH}/{platform_group.id}"
    page = browser.get(place).text
    assert "Platform" in page
    assert 'action="' + f'{place}/rules"' not in page
    assert browser.post(f"{place}/rules", data={**RULE_FORM, **EMPTY_RULE_FIELDS}).status_code == 403
    assert browser.post(f"{place}/delete").status_code == 403
    browser.post(f"{place}/attach", data={"instance_ids": cast.instance().id, "confirmed": "1"})
    assert session.scalar(select(SecurityGroupMember)) is not None
    ip_set = session.scalar(select(IpSet))
    assert browser.get(f"{IP_SETS_PATH}/{ip_set.id}").status_code == 200
    assert browser.post(f"{IP_SETS_PATH}/{ip_set.id}/entries", data={"cidrs": "10.0.0.0/8"}).status_code == 403


def test_viewer_can_only_read_and_outsider_gets_404(browser_as, cast, group):
    place = f"{GROUPS_PATH}/{group.id}"
    page = browser_as("viewer").get(place).text
    assert "You can view security groups but not change them." in page
    assert browser_as("viewer").post(f"{place}/rules", data={**RULE_FORM, **EMPTY_RULE_FIELDS}).status_code == 403
    assert browser_as("outsider").get(place).status_code == 404
    assert browser_as("outsider").post(f"{place}/delete").status_code == 404


def test_ip_set_pages_create_to_delete(browser_as):
    browser = browser_as("owner")
    assert "No IP set yet" in browser.get(IP_SETS_PATH).text
    browser.post(f"{IP_SETS_PATH}/new", data={"name": "Offices", "ip_version": "ipv4", "description": ""})
    ip_set = session.scalar(select(IpSet))
    place = f"{IP_SETS_PATH}/{ip_set.id}"
    sent = {"cidrs": "203.0.113.0/24\r\n198.51.100.7\r\n"}
    assert browser.post(f"{place}/entries", data=sent).headers["Location"] == place
    answer = browser.post(f"{place}/entries", data={"cidrs": "nonsense"}, follow_redirects=True)
    assert "nonsense: Must be a network" in answer.text
    page = browser.get(place).text
    assert HtmlOutline(page).open == []
    assert page.count('<tr id="entry-') == 2
    assert browser.post(f"{place}/entries", data={"cidrs": ""}).status_code == 422
    changed = {"name": "Ours", "ip_version": "ipv4", "description": "x"}
    assert browser.post(f"{place}/edit", data=changed).headers["Location"] == place
    entry = session.scalars(select(IpSetEntry)).first()
    assert browser.post(f"{place}/entry/{entry.id}/delete").headers["Location"] == place
    assert len(session.scalars(select(IpSetEntry)).all()) == 1
    assert browser.post(f"{place}/delete").headers["Location"] == IP_SETS_PATH
    assert browser_as("outsider").get(place).status_code == 404


def test_customer_lists_search_and_forms_ignore_owner_field(browser_as, cast):
    browser = browser_as("owner")
    for place, extra_fields in ((GROUPS_PATH, {}), (IP_SETS_PATH, {"ip_version": "ipv4"})):
        browser.post(f"{place}/new", data={"name": "Front", "owner": "outsider@example.com", **extra_fields})
        browser.post(f"{place}/new", data={"name": "Back", **extra_fields})
        browser.get(place)  # shows the flash messages of the creations
        page = browser.get(f"{place}?search=fro", headers=PARTIAL_HEADERS).text
        assert ("Front" in page, "Back" in page, "Owner" in page) == (True, False, False)
        assert "matches" in browser.get(f"{place}?search=zzz").text
    rows = [*session.scalars(select(SecurityGroup)), *session.scalars(select(IpSet))]
    assert {row.account_id for row in rows} == {cast.owner.id}
    assert len(rows) == 4
