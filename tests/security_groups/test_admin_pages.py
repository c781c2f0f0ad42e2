"""Security groups and IP sets of customers and of the platform on the operators' pages."""

import pytest

from panel.core.db import session
from panel.models import AuditEntry, IpSet, SecurityGroup
from panel.services import ip_sets, security_groups
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline

GROUPS_PATH, IP_SETS_PATH = "/admin/security-groups", "/admin/ip-sets"


@pytest.fixture
def operator_browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def groups(cast):
    """A group of the owner, one of the outsider, and one of the platform, by name."""
    owners = (("mine", cast.owner), ("theirs", cast.outsider), ("platform", None))
    groups_by_name = {name: security_groups.create(account, name=f"{name} <group>") for name, account in owners}
    session.commit()
    return groups_by_name


def assert_valid_page(answer):
    outline = HtmlOutline(answer.text)
    assert (answer.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    assert "<group>" not in answer.text
    return answer.text


def test_admin_list_shows_owners_and_searches(operator_browser, groups, queries):
    page = assert_valid_page(operator_browser.get(GROUPS_PATH))
    for group in groups.values():
        assert f"{GROUPS_PATH}/{group.id}" in page
    assert "outsider@example.com" in page
    assert "the platform" in page
    text = operator_browser.get(f"{GROUPS_PATH}?search=theirs", headers=PARTIAL_HEADERS).text
    assert (groups["theirs"].id in text, groups["mine"].id in text) == (True, False)
    assert "No security group matches" in operator_browser.get(f"{GROUPS_PATH}?search=zzz").text


def test_list_query_count_is_constant(operator_browser, cast, queries):
    def count_queries(address):
        operator_browser.get(address)
        queries.clear()
        operator_browser.get(address)
        return len(queries)

    for address, create in ((GROUPS_PATH, security_groups.create), (IP_SETS_PATH, ip_sets.create)):
        extra_fields = {"ip_version": "ipv4"} if address == IP_SETS_PATH else {}
        create(cast.owner, name="first", **extra_fields)
        session.commit()
        few = count_queries(address)
        for number in range(20):
            create((cast.owner, cast.outsider, None)[number % 3], name=f"more {number}", **extra_fields)
        session.commit()
        assert count_queries(address) == few, address


def test_platform_group_pages_create_to_delete(operator_browser, browser_as, cast):
    assert_valid_page(operator_browser.get(f"{GROUPS_PATH}/new"))
    assert (
        operator_browser.post(f"{GROUPS_PATH}/new", data={"name": "x", "owner": "nobody@example.com"}).status_code
        == 422
    )
    place = operator_browser.post(f"{GROUPS_PATH}/new", data={"name": "SSH only"}).headers["Location"]
    group = session.query(SecurityGroup).one()
    assert (group.is_global, place) == (True, f"{GROUPS_PATH}/{group.id}")
    assert_valid_page(operator_browser.get(place))
    assert_valid_page(operator_browser.get(f"{place}/edit"))
    rule = {"direction": "ingress", "protocol": "tcp", "ip_version": "ipv4"}
    wrong = operator_browser.post(f"{place}/rules", data=rule, headers=PARTIAL_HEADERS)
    assert ("<html" in wrong.text, "wrong-ports" in wrong.text) == (False, True)
    operator_browser.post(f"{place}/rules", data={**rule, "ports": "22"})
    assert "22" in assert_valid_page(operator_browser.get(place))
    assert "SSH only" in browser_as("owner").get("/security-groups").text
    operator_browser.post(f"{place}/edit", data={"name": "SSH"})
    assert session.query(SecurityGroup).one().name == "SSH"
    entry = session.query(AuditEntry).order_by(AuditEntry.id.desc()).first()
    assert ("admin@example.com" in entry.person, entry.object_type) == (True, "security_group")
    operator_browser.post(f"{place}/rule/{group.rules[0].id}/delete")
    assert session.get(SecurityGroup, group.id).rules == []
    assert operator_browser.post(f"{place}/delete").headers["Location"] == GROUPS_PATH
    assert session.query(SecurityGroup).count() == 0


def test_customer_group_page_offers_only_customer_resources(operator_browser, cast, groups):
    instance, foreign = cast.instance("owner"), cast.instance("outsider")
    page = assert_valid_page(operator_browser.get(f"{GROUPS_PATH}/{groups['mine'].id}"))
    assert (instance.id in page, foreign.id in page) == (True, False)
    assert (groups["platform"].id in page, groups["theirs"].id in page) == (True, False)
    place = f"{GROUPS_PATH}/{groups['mine'].id}"
    operator_browser.post(f"{place}/attach", data={"instance_ids": [instance.id], "confirmed": "1"})
    assert len(session.get(SecurityGroup, groups["mine"].id).members) == 1
    operator_browser.post(f"{place}/attach", data={"instance_ids": [foreign.id]})
    assert len(session.get(SecurityGroup, groups["mine"].id).members) == 1
    operator_browser.post(f"{place}/detach", data={"instance_ids": [instance.id]})
    assert session.get(SecurityGroup, groups["mine"].id).members == []
    assert "Select an instance" in operator_browser.post(f"{place}/attach", follow_redirects=True).text


def test_ip_set_admin_pages_create_to_delete(operator_browser, cast):
    assert_valid_page(operator_browser.get(IP_SETS_PATH))
    assert_valid_page(operator_browser.get(f"{IP_SETS_PATH}/new"))
    data = {"name": "Offices", "ip_version": "ipv4", "owner": "owner@example.com"}
    place = operator_browser.post(f"{IP_SETS_PATH}/new", data=data).headers["Location"]
    ip_set = session.query(IpSet).one()
    assert ip_set.account_id == cast.owner.id
    assert "owner@example.com" in assert_valid_page(operator_browser.get(place))
    answer = operator_browser.post(f"{place}/entries", data={"cidrs": "192.0.2.0/24\nnonsense"}, follow_redirects=True)
    assert "1 network added. nonsense: " in answer.text
    assert_valid_page(operator_browser.get(f"{place}/edit"))
    operator_browser.post(f"{place}/edit", data={"name": "Homes"})
    assert session.query(IpSet).one().name == "Homes"
    operator_browser.post(f"{place}/entry/{session.query(IpSet).one().entries[0].id}/delete")
    assert session.query(IpSet).one().entries == []
    assert "No IP set matches" in operator_browser.get(f"{IP_SETS_PATH}?search=zzz").text
    operator_browser.post(f"{place}/delete")
    assert session.query(IpSet).count() == 0


def test_support_operator_cannot_change_groups_or_ip_sets(browser_as, cast, groups):
    cast.admin.operator_role = "support"
    session.commit()
    browser, place = browser_as("admin"), f"{GROUPS_PATH}/{groups['platform'].id}"
    page = assert_valid_page(browser.get(place))
    assert "Add a rule" not in page
    for action in ("edit", "delete", "rules", "attach", "detach"):
        assert browser.post(f"{place}/{action}").status_code == 403
    ip_set = ip_sets.create(None, name="Offices", ip_version="ipv4")
    session.commit()
    assert "Add networks" not in assert_valid_page(browser.get(f"{IP_SETS_PATH}/{ip_set.id}"))
    for action in ("edit", "delete", "entries"):
        assert browser.post(f"{IP_SETS_PATH}/{ip_set.id}/{action}").status_code == 403
