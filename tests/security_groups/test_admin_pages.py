"""Security groups and IP sets on the operators' pages: everybody's and the platform's."""

import pytest

from panel.core.db import session
from panel.models import AuditEntry, IpSet, SecurityGroup
from panel.services import ip_sets, security_groups
from tests.test_pages import PARTIAL_HEADERS, HtmlOutline

GROUPS, SETS = "/admin/security-groups", "/admin/ip-sets"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


@pytest.fixture
def groups(cast):
    """One of each: a customer's, another's, and the platform's."""
    wanted = (("mine", cast.owner), ("theirs", cast.outsider), ("platform", None))
    made = {name: security_groups.create(account, name=f"{name} <group>") for name, account in wanted}
    session.commit()
    return made


def assert_page_sound(answer):
    outline = HtmlOutline(answer.text)
    assert (answer.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    assert "<group>" not in answer.text
    return answer.text


def test_everybodys_are_listed_with_their_owners_and_searched(operator, groups, queries):
    page = assert_page_sound(operator.get(GROUPS))
    for group in groups.values():
        assert f"{GROUPS}/{group.id}" in page
    assert "outsider@example.com" in page
    assert "the platform" in page
    found = operator.get(f"{GROUPS}?search=theirs", headers=PARTIAL_HEADERS).text
    assert (groups["theirs"].id in found, groups["mine"].id in found) == (True, False)
    assert "No security group matches" in operator.get(f"{GROUPS}?search=zzz").text


def test_the_lists_cost_the_same_for_many(operator, cast, queries):
    def asked(address):
        operator.get(address)
        queries.clear()
        operator.get(address)
        return len(queries)

    for address, create in ((GROUPS, security_groups.create), (SETS, ip_sets.create)):
        more = {"ip_version": "ipv4"} if address == SETS else {}
        create(cast.owner, name="first", **more)
        session.commit()
        few = asked(address)
        for number in range(20):
            create((cast.owner, cast.outsider, None)[number % 3], name=f"more {number}", **more)
        session.commit()
        assert asked(address) == few, address


def test_a_group_of_the_platform_from_its_making_to_its_end(operator, browser_as, cast):
    assert_page_sound(operator.get(f"{GROUPS}/new"))
    assert operator.post(f"{GROUPS}/new", data={"name": "x", "owner": "nobody@example.com"}).status_code == 422
    place = operator.post(f"{GROUPS}/new", data={"name": "SSH only"}).headers["Location"]
    group = session.query(SecurityGroup).one()
    assert (group.is_global, place) == (True, f"{GROUPS}/{group.id}")
    assert_page_sound(operator.get(place))
    assert_page_sound(operator.get(f"{place}/edit"))
    rule = {"direction": "ingress", "protocol": "tcp", "ip_version": "ipv4"}
    wrong = operator.post(f"{place}/rules", data=rule, headers=PARTIAL_HEADERS)
    assert ("<html" in wrong.text, "wrong-ports" in wrong.text) == (False, True)
    operator.post(f"{place}/rules", data={**rule, "ports": "22"})
    assert "22" in assert_page_sound(operator.get(place))
    assert "SSH only" in browser_as("owner").get("/security-groups").text
    operator.post(f"{place}/edit", data={"name": "SSH"})
    assert session.query(SecurityGroup).one().name == "SSH"
    entry = session.query(AuditEntry).order_by(AuditEntry.id.desc()).first()
    assert ("admin@example.com" in entry.person, entry.object_type) == (True, "security_group")
    operator.post(f"{place}/rule/{group.rules[0].id}/delete")
    assert session.get(SecurityGroup, group.id).rules == []
    assert operator.post(f"{place}/delete").headers["Location"] == GROUPS
    assert session.query(SecurityGroup).count() == 0


def test_for_a_customer_it_offers_what_is_the_customers(operator, cast, groups):
    instance, foreign = cast.instance("owner"), cast.instance("outsider")
    page = assert_page_sound(operator.get(f"{GROUPS}/{groups['mine'].id}"))
    assert (instance.id in page, foreign.id in page) == (True, False)
    assert (groups["platform"].id in page, groups["theirs"].id in page) == (True, False)
    place = f"{GROUPS}/{groups['mine'].id}"
    operator.post(f"{place}/attach", data={"instance_ids": [instance.id], "confirmed": "1"})
    assert len(session.get(SecurityGroup, groups["mine"].id).members) == 1
    operator.post(f"{place}/attach", data={"instance_ids": [foreign.id]})
    assert len(session.get(SecurityGroup, groups["mine"].id).members) == 1
    operator.post(f"{place}/detach", data={"instance_ids": [instance.id]})
    assert session.get(SecurityGroup, groups["mine"].id).members == []
    assert "Select an instance" in operator.post(f"{place}/attach", follow_redirects=True).text


def test_an_ip_set_from_its_making_to_its_end(operator, cast):
    assert_page_sound(operator.get(SETS))
    assert_page_sound(operator.get(f"{SETS}/new"))
    data = {"name": "Offices", "ip_version": "ipv4", "owner": "owner@example.com"}
    place = operator.post(f"{SETS}/new", data=data).headers["Location"]
    made = session.query(IpSet).one()
    assert made.account_id == cast.owner.id
    assert "owner@example.com" in assert_page_sound(operator.get(place))
    answer = operator.post(f"{place}/entries", data={"cidrs": "192.0.2.0/24\nnonsense"}, follow_redirects=True)
    assert "1 network added. nonsense: " in answer.text
    assert_page_sound(operator.get(f"{place}/edit"))
    operator.post(f"{place}/edit", data={"name": "Homes"})
    assert session.query(IpSet).one().name == "Homes"
    operator.post(f"{place}/entry/{session.query(IpSet).one().entries[0].id}/delete")
    assert session.query(IpSet).one().entries == []
    assert "No IP set matches" in operator.get(f"{SETS}?search=zzz").text
    operator.post(f"{place}/delete")
    assert session.query(IpSet).count() == 0


def test_who_may_only_read_does_nothing(browser_as, cast, groups):
    cast.admin.operator_role = "support"
    session.commit()
    browser, place = browser_as("admin"), f"{GROUPS}/{groups['platform'].id}"
    page = assert_page_sound(browser.get(place))
    assert "Add a rule" not in page
    for action in ("edit", "delete", "rules", "attach", "detach"):
        assert browser.post(f"{place}/{action}").status_code == 403
    made = ip_sets.create(None, name="Offices", ip_version="ipv4")
    session.commit()
    assert "Add networks" not in assert_page_sound(browser.get(f"{SETS}/{made.id}"))
    for action in ("edit", "delete", "entries"):
        assert browser.post(f"{SETS}/{made.id}/{action}").status_code == 403
