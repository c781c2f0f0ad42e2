"""The table of effective firewall rules on the network tab, with the groups of each rule."""

import re

import pytest

from panel.core.db import session
from panel.services import ip_sets
from tests.support.html_pages import HtmlOutline
from tests.support.security_groups import HTTP_RULE, PING_RULE, create_group, deploy_instance  # noqa: F401  (fixtures)
from tests.support.team import VIEW_PERMISSIONS, add_member  # noqa: F401  (fixtures)

RULE_TABLE_PATTERN = re.compile(r'<section[^>]*id="in-effect".*?</section>', re.S)


def parse_rule_rows(page):
    """Return the texts of the cells of each row, or None without a table."""
    table = RULE_TABLE_PATTERN.search(page)
    if table is None:
        return None
    rows = re.findall(r"<tr>(<td.*?)</tr>", table.group(), re.S)
    return [
        [" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in re.findall("<td.*?</td>", row, re.S)]
        for row in rows
    ]


@pytest.fixture
def get_shown_rules(browser_as):
    def get_rows(instance, caller="owner"):
        side = "/admin" if caller == "admin" else ""
        page = browser_as(caller).get(f"{side}/instances/{instance.id}/network").text
        assert HtmlOutline(page).open == []
        return parse_rule_rows(page)

    return get_rows


def test_instance_without_groups_allows_all_but_smtp(cast, get_shown_rules):
    instance = cast.instance()
    instance.enable_smtp = False
    session.commit()
    for caller in ("owner", "viewer", "admin"):
        incoming, mail, others = get_shown_rules(instance, caller)
        assert (incoming[:2], incoming[-1]) == (["Everything", "Inbound"], "Allowed")
        assert (mail[:3], mail[-1]) == (["TCP", "Outbound", "25"], "Blocked")
        assert (others[:2], others[-1]) == (["Everything", "Outbound"], "Allowed")


def test_rule_rows_name_groups_and_default_policy(api_as, deploy_instance, create_group, get_shown_rules):
    instance = deploy_instance()
    one, two = create_group(HTTP_RULE, instances=[instance]), create_group(HTTP_RULE, PING_RULE, instances=[instance])
    web, ping, others, out = get_shown_rules(instance)
    assert web[0] == "TCP IPv4"
    assert (web[4].count(","), web[5]) == (1, "Allowed")
    assert ping[0].startswith("ICMP")
    assert (others[0], others[5]) == ("Everything else", "Blocked")
    assert (out[1], out[4], out[5]) == ("Outbound", "No group has outbound rules", "Allowed")
    answer = api_as("owner", "GET", f"/api/instance/{instance.id}/firewall").json["firewall"]
    group_ids = [[security_group["id"] for security_group in rule["security_groups"]] for rule in answer["rules"]]
    assert sorted(map(sorted, group_ids)) == sorted([sorted([one, two]), [two], [], []])


def test_egress_rule_blocks_other_outbound_traffic(cast, deploy_instance, create_group, get_shown_rules):
    networks = ip_sets.create(cast.owner, name="Offices", ip_version="ipv4")
    for number in range(6):
        ip_sets.add_entry(networks, cidr=f"10.{number * 2}.0.0/24", actor="test")
    session.commit()
    instance = deploy_instance()
    out = {"direction": "egress", "protocol": "all", "ip_version": "ipv4", "ip_set_id": networks.id}
    create_group(out, instances=[instance])
    shown_rules = get_shown_rules(instance)
    assert [(row[0], row[1], row[5]) for row in shown_rules] == [
        ("Everything else", "Inbound", "Blocked"),
        ("Everything IPv4", "Outbound", "Allowed"),
        ("Everything else", "Outbound", "Blocked"),
    ]
    assert shown_rules[1][3].startswith("10.0.0.0/24, 10.2.0.0/24, 10.4.0.0/24, 10.6.0.0/24 and 2 more 10.8.0.0/24")


def test_rule_table_requires_security_group_permission(browser_as, cast, add_member):
    instance = cast.instance()
    add_member(
        "sorter", [view_permission for view_permission in VIEW_PERMISSIONS if view_permission != "security_groups.view"]
    )
    page = browser_as("sorter").get(f"/instances/{instance.id}/network")
    assert (page.status_code, parse_rule_rows(page.text)) == (200, None)
