"""The form of rules, presets, and the confirmation before all inbound traffic is blocked."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import IpSet, SecurityGroup, SecurityGroupMember, SecurityRule
from panel.services import security_groups

RULE_FORM = {"direction": "ingress", "protocol": "tcp", "ip_version": "both", "ports": "22", "description": ""}
LOCKOUT_WARNING = "All inbound traffic to this instance will be blocked, including SSH."


@pytest.fixture
def group(cast):
    security_group = security_groups.create(cast.owner, name="web")
    session.commit()
    return security_group


@pytest.fixture
def group_path(group):
    return f"/security-groups/{group.id}"


def list_rules():
    security_rules = session.scalars(select(SecurityRule).order_by(SecurityRule.protocol, SecurityRule.ip_version))
    return [(rule.protocol, rule.ip_version, rule.port_range_min, rule.port_range_max) for rule in security_rules]


def test_rule_form_adds_rule_for_each_ip_version(browser_as, group_path):
    assert browser_as("owner").post(f"{group_path}/rules", data=RULE_FORM).status_code == 303
    assert list_rules() == [("tcp", "ipv4", 22, 22), ("tcp", "ipv6", 22, 22)]


@pytest.mark.parametrize(
    ("ports", "expected"), [("22", (22, 22)), ("80-90", (80, 90)), (" 80 - 90 ", (80, 90)), ("80\u201390", (80, 90))]
)
def test_ports_field_accepts_port_or_range(browser_as, group_path, ports, expected):
    browser_as("owner").post(f"{group_path}/rules", data={**RULE_FORM, "ip_version": "ipv4", "ports": ports})
    assert list_rules() == [("tcp", "ipv4", *expected)]


@pytest.mark.parametrize("ports", ["", "ssh", "0", "70000", "90-80", "1,2", "-5"])
def test_invalid_ports_are_field_error(browser_as, group_path, ports):
    answer = browser_as("owner").post(f"{group_path}/rules", data={**RULE_FORM, "ports": ports})
    assert (answer.status_code, 'id="wrong-ports"' in answer.text) == (422, True)
    assert list_rules() == []


def test_rule_form_skips_ip_version_with_same_rule(browser_as, group_path):
    browser = browser_as("owner")
    browser.post(f"{group_path}/rules", data={**RULE_FORM, "ip_version": "ipv4"})
    assert browser.post(f"{group_path}/rules", data=RULE_FORM).status_code == 303
    assert [version for _, version, _, _ in list_rules()] == ["ipv4", "ipv6"]
    assert browser.post(f"{group_path}/rules", data=RULE_FORM).status_code == 422


def test_cidr_or_ip_set_determines_ip_version(browser_as, cast, group_path):
    browser_as("owner").post(f"{group_path}/rules", data={**RULE_FORM, "cidr": "2001:db8::/32"})
    assert list_rules() == [("tcp", "ipv6", 22, 22)]
    ip_set = IpSet(account_id=cast.owner.id, name="offices", ip_version="ipv4")
    session.add(ip_set)
    session.commit()
    browser_as("owner").post(f"{group_path}/rules", data={**RULE_FORM, "ip_set_id": ip_set.id})
    assert list_rules() == [("tcp", "ipv4", 22, 22), ("tcp", "ipv6", 22, 22)]
    wrong = browser_as("owner").post(f"{group_path}/rules", data={**RULE_FORM, "cidr": "nonsense"})
    assert 'id="wrong-cidr"' in wrong.text


def test_presets_add_rules_for_both_ip_versions(browser_as, group_path):
    browser = browser_as("owner")
    for preset in ("ssh", "ping"):
        assert f'action="{group_path}/presets/{preset}"' in browser.get(group_path).text
        assert browser.post(f"{group_path}/presets/{preset}").status_code == 303
    assert list_rules() == [
        ("icmp", "ipv4", None, None),
        ("icmpv6", "ipv6", None, None),
        ("tcp", "ipv4", 22, 22),
        ("tcp", "ipv6", 22, 22),
    ]
    assert browser.post(f"{group_path}/presets/telnet").status_code == 404


def test_attach_that_blocks_all_inbound_asks_for_confirmation(browser_as, cast, group, group_path):
    instance, browser = cast.instance(display_name="Shop"), browser_as("owner")
    sent = {"instance_ids": instance.id, "back": instance.id}
    answer = browser.post(f"{group_path}/attach", data=sent)
    page = browser.get(answer.headers["Location"]).text
    assert LOCKOUT_WARNING in page
    assert re.search(r'<section [^>]*aria-describedby="question" tabindex="-1" autofocus>', page)
    assert "Add a rule for SSH" in page
    assert session.scalar(select(SecurityGroupMember)) is None
    browser.post(f"{group_path}/attach", data={**sent, "confirmed": "1", "add": "ssh"})
    assert session.scalar(select(SecurityGroupMember.instance_id)) == instance.id
    assert list_rules() == [("tcp", "ipv4", 22, 22), ("tcp", "ipv6", 22, 22)]


@pytest.fixture
def ssh_group(cast):
    """A group with a rule for SSH, and an instance in it."""
    row = security_groups.create(cast.owner, name="ssh")
    facts = {
        "direction": "ingress",
        "protocol": "tcp",
        "ip_version": "ipv4",
        "port_range_min": 20,
        "port_range_max": 30,
    }
    security_groups.add_rule(row, cast.owner, actor="test", **facts)
    security_groups.attach(row, [cast.instance(display_name="Shop").id], cast.owner, actor="test")
    session.commit()
    return row


def test_removal_of_last_ssh_rule_asks_for_confirmation(browser_as, ssh_group):
    browser, path = browser_as("owner"), f"/security-groups/{ssh_group.id}"
    removal = f"{path}/rule/{session.scalar(select(SecurityRule.id))}/delete"
    answer = browser.post(removal)
    assert answer.headers["Location"] == removal
    page = browser.get(removal).text
    assert "SSH to this instance will be blocked." in page
    assert "Shop" in page
    assert list_rules() != []
    browser.post(f"{path}/presets/ssh")
    assert browser.post(removal).headers["Location"] == path  # another rule allows SSH
    assert len(list_rules()) == 2
    browser.post(f"{path}/rule/{session.scalar(select(SecurityRule.id))}/delete")
    last_id = session.scalar(select(SecurityRule.id))
    assert browser.post(f"{path}/rule/{last_id}/delete").headers["Location"].endswith(f"{last_id}/delete")
    browser.post(f"{path}/rule/{last_id}/delete", data={"confirmed": "1"})
    assert list_rules() == []


def test_leaving_or_deleting_the_group_with_ssh_asks_for_confirmation(browser_as, cast, group, ssh_group):
    browser, path = browser_as("owner"), f"/security-groups/{ssh_group.id}"
    instance_id = session.scalar(select(SecurityGroupMember.instance_id))
    security_groups.attach(group, [instance_id], cast.owner, actor="test")
    session.commit()
    question = "SSH to this instance will be blocked."
    assert question in browser.post(f"{path}/delete", follow_redirects=True).text
    sent = {"instance_ids": instance_id, "back": instance_id}
    assert question in browser.post(f"{path}/detach", data=sent, follow_redirects=True).text
    assert len(session.scalars(select(SecurityGroupMember)).all()) == 2
    browser.post(f"{path}/detach", data=sent | {"confirmed": "1"})
    assert session.scalars(select(SecurityGroupMember.group_id)).all() == [group.id]
    assert browser.post(f"{path}/delete").headers["Location"] == "/security-groups"


def test_open_instance_joins_group_without_ssh_after_confirmation(browser_as, cast, group, group_path):
    facts = {
        "direction": "ingress",
        "protocol": "tcp",
        "ip_version": "ipv4",
        "port_range_min": 80,
        "port_range_max": 80,
    }
    security_groups.add_rule(group, cast.owner, actor="test", **facts)
    instance = cast.instance()
    session.commit()
    page = browser_as("owner").post(f"{group_path}/attach", data={"instance_ids": instance.id}, follow_redirects=True)
    assert "SSH to this instance will be blocked." in page.text
    assert "Add without SSH" in page.text
    assert session.scalar(select(SecurityGroupMember)) is None


def test_attach_with_other_inbound_rules_needs_no_confirmation(browser_as, cast, group, group_path):
    instance, browser = cast.instance(), browser_as("owner")
    other = SecurityGroup(account_id=cast.owner.id, name="ssh")
    other.rules = [SecurityRule(direction="ingress", protocol="all", ip_version="ipv4")]
    session.add(other)
    session.flush()
    session.add(SecurityGroupMember(group_id=other.id, instance_id=instance.id))
    session.commit()
    browser.post(f"{group_path}/attach", data={"instance_ids": instance.id})
    assert len(session.scalars(select(SecurityGroupMember)).all()) == 2


def test_attach_confirmation_hides_foreign_instances(browser_as, cast, group_path):
    foreign = cast.instance("outsider", display_name="not-yours")
    page = browser_as("owner").get(f"{group_path}/attach?instance_ids={foreign.id}").text
    assert "not-yours" not in page
