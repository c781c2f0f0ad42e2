"""Rules in one line, presets, and the question before an instance is cut off (finding M10)."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import IpSet, SecurityGroup, SecurityGroupMember, SecurityRule
from panel.services import security_groups

FORM = {"direction": "ingress", "protocol": "tcp", "ip_version": "both", "ports": "22", "description": ""}
WARNING = "All inbound traffic to this instance will be blocked, including SSH."


@pytest.fixture
def group(cast):
    made = security_groups.create(cast.owner, name="web")
    session.commit()
    return made


@pytest.fixture
def place(group):
    return f"/security-groups/{group.id}"


def rules():
    found = session.scalars(select(SecurityRule).order_by(SecurityRule.protocol, SecurityRule.ip_version))
    return [(rule.protocol, rule.ip_version, rule.port_range_min, rule.port_range_max) for rule in found]


def test_one_line_becomes_a_rule_for_each_version(browser_as, place):
    assert browser_as("owner").post(f"{place}/rules", data=FORM).status_code == 303
    assert rules() == [("tcp", "ipv4", 22, 22), ("tcp", "ipv6", 22, 22)]


@pytest.mark.parametrize(
    ("ports", "wanted"), [("22", (22, 22)), ("80-90", (80, 90)), (" 80 - 90 ", (80, 90)), ("80\u201390", (80, 90))]
)
def test_one_field_takes_a_port_or_a_range(browser_as, place, ports, wanted):
    browser_as("owner").post(f"{place}/rules", data={**FORM, "ip_version": "ipv4", "ports": ports})
    assert rules() == [("tcp", "ipv4", *wanted)]


@pytest.mark.parametrize("ports", ["", "ssh", "0", "70000", "90-80", "1,2", "-5"])
def test_wrong_ports_are_an_error_at_the_field(browser_as, place, ports):
    answer = browser_as("owner").post(f"{place}/rules", data={**FORM, "ports": ports})
    assert (answer.status_code, 'id="wrong-ports"' in answer.text) == (422, True)
    assert rules() == []


def test_a_version_that_has_the_rule_is_left_out(browser_as, place):
    browser = browser_as("owner")
    browser.post(f"{place}/rules", data={**FORM, "ip_version": "ipv4"})
    assert browser.post(f"{place}/rules", data=FORM).status_code == 303
    assert [version for _, version, _, _ in rules()] == ["ipv4", "ipv6"]
    assert browser.post(f"{place}/rules", data=FORM).status_code == 422


def test_a_network_or_a_set_decides_the_version(browser_as, cast, place):
    browser_as("owner").post(f"{place}/rules", data={**FORM, "cidr": "2001:db8::/32"})
    assert rules() == [("tcp", "ipv6", 22, 22)]
    found = IpSet(account_id=cast.owner.id, name="offices", ip_version="ipv4")
    session.add(found)
    session.commit()
    browser_as("owner").post(f"{place}/rules", data={**FORM, "ip_set_id": found.id})
    assert rules() == [("tcp", "ipv4", 22, 22), ("tcp", "ipv6", 22, 22)]
    wrong = browser_as("owner").post(f"{place}/rules", data={**FORM, "cidr": "nonsense"})
    assert 'id="wrong-cidr"' in wrong.text


def test_presets_add_both_versions(browser_as, place):
    browser = browser_as("owner")
    for preset in ("ssh", "ping"):
        assert f'action="{place}/presets/{preset}"' in browser.get(place).text
        assert browser.post(f"{place}/presets/{preset}").status_code == 303
    assert rules() == [
        ("icmp", "ipv4", None, None),
        ("icmpv6", "ipv6", None, None),
        ("tcp", "ipv4", 22, 22),
        ("tcp", "ipv6", 22, 22),
    ]
    assert browser.post(f"{place}/presets/telnet").status_code == 404


def test_a_group_that_cuts_an_instance_off_asks_first(browser_as, cast, group, place):
    instance, browser = cast.instance(display_name="Shop"), browser_as("owner")
    sent = {"instance_ids": instance.id, "back": instance.id}
    asked = browser.post(f"{place}/attach", data=sent)
    page = browser.get(asked.headers["Location"]).text
    assert WARNING in page
    assert re.search(r'<section [^>]*aria-describedby="question" tabindex="-1" autofocus>', page)
    assert "Add SSH rule" in page
    assert session.scalar(select(SecurityGroupMember)) is None
    browser.post(f"{place}/attach", data={**sent, "confirmed": "1", "add": "ssh"})
    assert session.scalar(select(SecurityGroupMember.instance_id)) == instance.id
    assert rules() == [("tcp", "ipv4", 22, 22), ("tcp", "ipv6", 22, 22)]


def test_it_asks_only_where_nothing_else_lets_traffic_in(browser_as, cast, group, place):
    instance, browser = cast.instance(), browser_as("owner")
    other = SecurityGroup(account_id=cast.owner.id, name="ssh")
    other.rules = [SecurityRule(direction="ingress", protocol="all", ip_version="ipv4")]
    session.add(other)
    session.flush()
    session.add(SecurityGroupMember(group_id=other.id, instance_id=instance.id))
    session.commit()
    browser.post(f"{place}/attach", data={"instance_ids": instance.id})
    assert len(session.scalars(select(SecurityGroupMember)).all()) == 2


def test_the_question_names_nobody_elses_instances(browser_as, cast, place):
    foreign = cast.instance("outsider", display_name="not-yours")
    page = browser_as("owner").get(f"{place}/attach?instance_ids={foreign.id}").text
    assert "not-yours" not in page
