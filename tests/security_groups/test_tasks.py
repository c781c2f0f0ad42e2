"""What the rules of groups become on the node, and when they are applied anew."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Task
from tests.security_groups.test_api import HTTP_RULE
from worker.nodes import base

PING_RULE = {"direction": "ingress", "protocol": "icmpv6", "ip_version": "ipv6"}
DNS_RULE = {"direction": "egress", "protocol": "udp", "ip_version": "ipv4", "port_range_min": 53, "port_range_max": 53}
EGRESS_ALLOWED = [base.FirewallRule("out", 4), base.FirewallRule("out", 6)]


@pytest.fixture
def deployed(api_as, cast, run_tasks):
    def make(who="owner", **values):
        instance = cast.instance(who, **values)
        api_as(who, "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
        run_tasks()
        return instance

    return make


@pytest.fixture
def group(api_as):
    def make(*rules, instances=(), who="owner"):
        made = api_as(who, "POST", "/api/security-groups", json={"name": "g"}).json["security_group"]["id"]
        for rule in rules:
            assert api_as(who, "POST", f"/api/security-group/{made}/rules", json=rule).status_code == 200
        change_attachment(api_as, made, "attach", *instances, who=who)
        return made

    return make


def change_attachment(as_, group, way, *instances, who="owner"):
    if instances:
        body = {"instance_ids": [each.id for each in instances]}
        assert as_(who, "POST", f"/api/security-group/{group}/{way}-instances", json=body).status_code == 200


def allowed_traffic(node, instance):
    """What the node lets pass, as the contract's own words; None is everything."""
    [card] = node.nics_of(instance.id)
    if card["allowed"] is None:
        return None
    found = [{**each, "ports": each["ports"] and tuple(each["ports"])} for each in card["allowed"]]
    return sorted((base.FirewallRule(**each) for each in found), key=repr)


def rules(*wanted):
    return sorted(wanted, key=repr)


def http_rule(network=None):
    return base.FirewallRule("in", 4, "tcp", (80, 443), network)


def applied():
    return session.scalars(select(Task).where(Task.kind == "firewall_apply")).all()


def test_a_machine_in_no_group_is_open(node, deployed):
    assert allowed_traffic(node, deployed()) is None


def test_a_running_machine_gets_the_rules_and_loses_them(api_as, node, run_tasks, deployed, group):
    one = deployed()
    made = group(HTTP_RULE, PING_RULE, instances=[one])
    run_tasks()
    assert allowed_traffic(node, one) == rules(http_rule(), base.FirewallRule("in", 6, "icmp"), *EGRESS_ALLOWED)
    change_attachment(api_as, made, "detach", one)
    run_tasks()
    assert allowed_traffic(node, one) is None


def test_a_group_without_rules_lets_nobody_in(node, run_tasks, deployed, group):
    one = deployed()
    group(instances=[one])
    run_tasks()
    assert allowed_traffic(node, one) == rules(*EGRESS_ALLOWED)


def test_one_rule_for_going_out_shuts_the_rest(node, run_tasks, deployed, group):
    one = deployed()
    group(DNS_RULE, instances=[one])
    run_tasks()
    assert allowed_traffic(node, one) == [base.FirewallRule("out", 4, "udp", (53, 53))]


def test_the_rules_of_all_groups_add_up(api_as, node, run_tasks, deployed, group):
    one = deployed()
    group({**HTTP_RULE, "cidr": "10.1.2.3/8"}, instances=[one])
    group({**HTTP_RULE, "cidr": "10.0.0.0/8"}, DNS_RULE, instances=[one])
    run_tasks()
    assert allowed_traffic(node, one) == rules(http_rule("10.0.0.0/8"), base.FirewallRule("out", 4, "udp", (53, 53)))


def test_a_machine_made_later_begins_with_its_rules(api_as, cast, node, run_tasks, group):
    one = cast.instance()
    group(HTTP_RULE, instances=[one])
    assert applied() == []
    api_as("owner", "POST", f"/api/instance/{one.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert allowed_traffic(node, one) == rules(http_rule(), *EGRESS_ALLOWED)


def test_a_machine_that_is_being_made_misses_no_change(api_as, cast, node, run_tasks, group, monkeypatch):
    """The group is joined after the making has read the rules, and before the machine counts as there."""
    one, made = cast.instance(), group(HTTP_RULE)
    api_as("owner", "POST", f"/api/instance/{one.id}/deploy", json={"image_id": cast.image.id})
    define = type(node).define

    def joined_meanwhile(self, machine):
        define(self, machine)
        change_attachment(api_as, made, "attach", one)

    monkeypatch.setattr(type(node), "define", joined_meanwhile)
    run_tasks()
    assert allowed_traffic(node, one) == rules(http_rule(), *EGRESS_ALLOWED)


def test_a_change_of_a_rule_or_a_set_reaches_every_machine(api_as, node, run_tasks, deployed, group):
    one, two = deployed(), deployed()
    offices = api_as("owner", "POST", "/api/ip-sets", json={"name": "o", "ip_version": "ipv4"}).json["ip_set"]["id"]
    made = group({**HTTP_RULE, "ip_set_id": offices}, instances=[one, two])
    run_tasks()
    assert allowed_traffic(node, one) == rules(*EGRESS_ALLOWED)
    body = {"cidrs": ["10.0.0.0/9", "10.128.0.0/9", "192.0.2.1"]}
    created = api_as("owner", "POST", f"/api/ip-set/{offices}/bulk-add", json=body).json["created"]
    run_tasks()
    assert (
        allowed_traffic(node, one)
        == allowed_traffic(node, two)
        == rules(http_rule("10.0.0.0/8"), http_rule("192.0.2.1/32"), *EGRESS_ALLOWED)
    )
    api_as("owner", "DELETE", f"/api/ip-set/{offices}/entry/{created[2]['id']}")
    run_tasks()
    assert allowed_traffic(node, two) == rules(http_rule("10.0.0.0/8"), *EGRESS_ALLOWED)
    [rule] = api_as("owner", "GET", f"/api/security-group/{made}").json["security_group"]["rules"]
    api_as("owner", "DELETE", f"/api/security-group/{made}/rule/{rule['id']}")
    run_tasks()
    assert allowed_traffic(node, one) == rules(*EGRESS_ALLOWED)


def test_a_rule_for_a_group_follows_who_comes_and_goes(api_as, node, run_tasks, deployed, group):
    server, client, other = deployed(), deployed(), deployed()
    clients = group(instances=[client])
    group({**HTTP_RULE, "remote_group_id": clients}, instances=[server])
    run_tasks()
    assert allowed_traffic(node, server) == rules(http_rule(f"{client.ipv4}/32"), *EGRESS_ALLOWED)
    change_attachment(api_as, clients, "attach", other)
    run_tasks()
    both = {f"{client.ipv4}/32", f"{other.ipv4}/32"}
    assert {each.network for each in allowed_traffic(node, server) if each.direction == "in"} <= {*both, "10.9.0.2/31"}
    change_attachment(api_as, clients, "detach", client)
    run_tasks()
    assert allowed_traffic(node, server) == rules(http_rule(f"{other.ipv4}/32"), *EGRESS_ALLOWED)


def test_the_addresses_of_a_destroyed_machine_are_let_in_no_more(api_as, node, run_tasks, deployed, group):
    server, client = deployed(), deployed()
    clients = group(instances=[client])
    group({**HTTP_RULE, "remote_group_id": clients}, instances=[server])
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{client.id}")
    run_tasks()
    assert allowed_traffic(node, server) == rules(*EGRESS_ALLOWED)


def test_the_platforms_group_opens_nothing_between_customers(api_as, node, run_tasks, deployed):
    made = api_as("admin", "POST", "/api/v1/security-groups", json={"name": "Inside"}).json["data"]["id"]
    rule = {**HTTP_RULE, "remote_group_id": made}
    assert api_as("admin", "POST", f"/api/v1/security-group/{made}/rules", json=rule).status_code == 200
    mine, also_mine, theirs = deployed(), deployed(), deployed("outsider")
    change_attachment(api_as, made, "attach", mine, also_mine)
    change_attachment(api_as, made, "attach", theirs, who="outsider")
    run_tasks()
    assert allowed_traffic(node, theirs) == rules(http_rule(f"{theirs.ipv4}/32"), *EGRESS_ALLOWED)
    assert not any(each.network and theirs.ipv4 in each.network for each in allowed_traffic(node, mine))


def test_removing_a_group_opens_its_machines(api_as, node, run_tasks, deployed, group):
    one, two = deployed(), deployed()
    made = group(HTTP_RULE, instances=[one])
    group({**HTTP_RULE, "remote_group_id": made}, instances=[two])
    run_tasks()
    api_as("owner", "DELETE", f"/api/security-group/{made}")
    run_tasks()
    assert allowed_traffic(node, one) is None
    assert allowed_traffic(node, two) == rules(*EGRESS_ALLOWED)


def test_many_changes_are_one_task(api_as, node, run_tasks, deployed, group):
    one = deployed()
    made = group(instances=[one])
    for port in (80, 81, 82):
        rule = {**HTTP_RULE, "port_range_min": port, "port_range_max": port}
        api_as("owner", "POST", f"/api/security-group/{made}/rules", json=rule)
    assert len(applied()) == 1
    run_tasks()
    assert len([each for each in allowed_traffic(node, one) if each.direction == "in"]) == 3
    api_as("owner", "POST", f"/api/security-group/{made}/rules", json=HTTP_RULE)
    assert len(applied()) == 2


def test_rules_are_there_after_a_restart_of_the_machine(api_as, node, run_tasks, deployed, group):
    one = deployed()
    group(HTTP_RULE, instances=[one])
    run_tasks()
    for action in ("poweroff", "start"):
        api_as("owner", "POST", f"/api/instance/{one.id}/power/{action}")
        run_tasks()
    assert allowed_traffic(node, one) == rules(http_rule(), *EGRESS_ALLOWED)


def test_a_refused_firewall_update_fails_the_task(api_as, node, run_tasks, deployed, group):
    one = deployed()
    node.fault("update_nics", "refuse", count=1)
    made = group(HTTP_RULE, instances=[one])
    run_tasks()
    [task] = applied()
    assert (task.status, task.error) == ("failed", "The hypervisor refused this.")
    assert allowed_traffic(node, one) is None
    api_as("owner", "POST", f"/api/security-group/{made}/rules", json=PING_RULE)
    run_tasks()
    assert allowed_traffic(node, one) == rules(http_rule(), base.FirewallRule("in", 6, "icmp"), *EGRESS_ALLOWED)


def test_more_rules_than_a_node_can_take_are_reported(api_as, node, run_tasks, deployed, group):
    one = deployed()
    made = group(instances=[one])
    for number in range(5):
        body = {"name": "o", "ip_version": "ipv4"}
        offices = api_as("owner", "POST", "/api/ip-sets", json=body).json["ip_set"]["id"]
        cidrs = [f"10.{number}.{n}.0/25" for n in range(250)]
        api_as("owner", "POST", f"/api/ip-set/{offices}/bulk-add", json={"cidrs": cidrs})
        api_as("owner", "POST", f"/api/security-group/{made}/rules", json={**HTTP_RULE, "ip_set_id": offices})
        run_tasks()
    assert len(allowed_traffic(node, one)) == 3 * 250 + len(EGRESS_ALLOWED), "what was applied last holds"
    assert ["at most 1000 are possible" in (task.error or "") for task in applied()][-2:] == [True, True]


def test_a_machine_that_the_node_lost_fails_nothing(node, run_tasks, deployed, group):
    one = deployed()
    node.external_delete(one.id)
    group(HTTP_RULE, instances=[one])
    run_tasks()
    assert [task.status for task in applied()] == ["completed"]


def test_the_switch_for_mail_is_the_nodes(api_as, node, run_tasks, deployed):
    """INS-74 and the field `enable_smtp`: port 25 out is shut while it is off."""
    one = deployed()
    assert node.nics_of(one.id)[0]["mail"] is True
    api_as("owner", "PATCH", f"/api/instance/{one.id}", json={"enable_smtp": False})
    run_tasks()
    assert node.nics_of(one.id)[0]["mail"] is False
    api_as("owner", "PATCH", f"/api/instance/{one.id}", json={"notes": "x", "enable_smtp": False})
    assert len(applied()) == 1
    api_as("admin", "PATCH", f"/api/v1/instance/{one.id}", json={"enable_smtp": True})
    run_tasks()
    assert node.nics_of(one.id)[0]["mail"] is True
