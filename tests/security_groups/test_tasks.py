"""What the rules of groups become on the node, and when they are applied anew."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Task
from tests.security_groups.test_api import HTTP
from worker.nodes import base

PING = {"direction": "ingress", "protocol": "icmpv6", "ip_version": "ipv6"}
DNS = {"direction": "egress", "protocol": "udp", "ip_version": "ipv4", "port_range_min": 53, "port_range_max": 53}
OUT = [base.Allowed("out", 4), base.Allowed("out", 6)]


@pytest.fixture
def deployed(as_, cast, work):
    def make(who="owner", **values):
        instance = cast.instance(who, **values)
        as_(who, "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
        work()
        return instance

    return make


@pytest.fixture
def group(as_):
    def make(*rules, instances=(), who="owner"):
        made = as_(who, "POST", "/api/security-groups", json={"name": "g"}).json["security_group"]["id"]
        for rule in rules:
            assert as_(who, "POST", f"/api/security-group/{made}/rules", json=rule).status_code == 200
        move(as_, made, "attach", *instances, who=who)
        return made

    return make


def move(as_, group, way, *instances, who="owner"):
    if instances:
        body = {"instance_ids": [each.id for each in instances]}
        assert as_(who, "POST", f"/api/security-group/{group}/{way}-instances", json=body).status_code == 200


def allowed(node, instance):
    """What the node lets pass, as the contract's own words; None is everything."""
    [card] = node.cards_of(instance.id)
    if card["allowed"] is None:
        return None
    found = [{**each, "ports": each["ports"] and tuple(each["ports"])} for each in card["allowed"]]
    return sorted((base.Allowed(**each) for each in found), key=repr)


def rules(*wanted):
    return sorted(wanted, key=repr)


def web(network=None):
    return base.Allowed("in", 4, "tcp", (80, 443), network)


def applied():
    return session.scalars(select(Task).where(Task.kind == "firewall_apply")).all()


def test_a_machine_in_no_group_is_open(node, deployed):
    assert allowed(node, deployed()) is None


def test_a_running_machine_gets_the_rules_and_loses_them(as_, node, work, deployed, group):
    one = deployed()
    made = group(HTTP, PING, instances=[one])
    work()
    assert allowed(node, one) == rules(web(), base.Allowed("in", 6, "icmp"), *OUT)
    move(as_, made, "detach", one)
    work()
    assert allowed(node, one) is None


def test_a_group_without_rules_lets_nobody_in(node, work, deployed, group):
    one = deployed()
    group(instances=[one])
    work()
    assert allowed(node, one) == rules(*OUT)


def test_one_rule_for_going_out_shuts_the_rest(node, work, deployed, group):
    one = deployed()
    group(DNS, instances=[one])
    work()
    assert allowed(node, one) == [base.Allowed("out", 4, "udp", (53, 53))]


def test_the_rules_of_all_groups_add_up(as_, node, work, deployed, group):
    one = deployed()
    group({**HTTP, "cidr": "10.1.2.3/8"}, instances=[one])
    group({**HTTP, "cidr": "10.0.0.0/8"}, DNS, instances=[one])
    work()
    assert allowed(node, one) == rules(web("10.0.0.0/8"), base.Allowed("out", 4, "udp", (53, 53)))


def test_a_machine_made_later_begins_with_its_rules(as_, cast, node, work, group):
    one = cast.instance()
    group(HTTP, instances=[one])
    assert applied() == []
    as_("owner", "POST", f"/api/instance/{one.id}/deploy", json={"image_id": cast.image.id})
    work()
    assert allowed(node, one) == rules(web(), *OUT)


def test_a_machine_that_is_being_made_misses_no_change(as_, cast, node, work, group, monkeypatch):
    """The group is joined after the making has read the rules, and before the machine counts as there."""
    one, made = cast.instance(), group(HTTP)
    as_("owner", "POST", f"/api/instance/{one.id}/deploy", json={"image_id": cast.image.id})
    define = type(node).define

    def joined_meanwhile(self, machine):
        define(self, machine)
        move(as_, made, "attach", one)

    monkeypatch.setattr(type(node), "define", joined_meanwhile)
    work()
    assert allowed(node, one) == rules(web(), *OUT)


def test_a_change_of_a_rule_or_a_set_reaches_every_machine(as_, node, work, deployed, group):
    one, two = deployed(), deployed()
    offices = as_("owner", "POST", "/api/ip-sets", json={"name": "o", "ip_version": "ipv4"}).json["ip_set"]["id"]
    made = group({**HTTP, "ip_set_id": offices}, instances=[one, two])
    work()
    assert allowed(node, one) == rules(*OUT)
    body = {"cidrs": ["10.0.0.0/9", "10.128.0.0/9", "192.0.2.1"]}
    created = as_("owner", "POST", f"/api/ip-set/{offices}/bulk-add", json=body).json["created"]
    work()
    assert allowed(node, one) == allowed(node, two) == rules(web("10.0.0.0/8"), web("192.0.2.1/32"), *OUT)
    as_("owner", "DELETE", f"/api/ip-set/{offices}/entry/{created[2]['id']}")
    work()
    assert allowed(node, two) == rules(web("10.0.0.0/8"), *OUT)
    [rule] = as_("owner", "GET", f"/api/security-group/{made}").json["security_group"]["rules"]
    as_("owner", "DELETE", f"/api/security-group/{made}/rule/{rule['id']}")
    work()
    assert allowed(node, one) == rules(*OUT)


def test_a_rule_for_a_group_follows_who_comes_and_goes(as_, node, work, deployed, group):
    server, client, other = deployed(), deployed(), deployed()
    clients = group(instances=[client])
    group({**HTTP, "remote_group_id": clients}, instances=[server])
    work()
    assert allowed(node, server) == rules(web(f"{client.ipv4}/32"), *OUT)
    move(as_, clients, "attach", other)
    work()
    both = {f"{client.ipv4}/32", f"{other.ipv4}/32"}
    assert {each.network for each in allowed(node, server) if each.direction == "in"} <= {*both, "10.9.0.2/31"}
    move(as_, clients, "detach", client)
    work()
    assert allowed(node, server) == rules(web(f"{other.ipv4}/32"), *OUT)


def test_the_addresses_of_a_destroyed_machine_are_let_in_no_more(as_, node, work, deployed, group):
    server, client = deployed(), deployed()
    clients = group(instances=[client])
    group({**HTTP, "remote_group_id": clients}, instances=[server])
    work()
    as_("owner", "DELETE", f"/api/cloud-service/instances/{client.id}")
    work()
    assert allowed(node, server) == rules(*OUT)


def test_the_platforms_group_opens_nothing_between_customers(as_, node, work, deployed):
    made = as_("admin", "POST", "/api/v1/security-groups", json={"name": "Inside"}).json["data"]["id"]
    rule = {**HTTP, "remote_group_id": made}
    assert as_("admin", "POST", f"/api/v1/security-group/{made}/rules", json=rule).status_code == 200
    mine, also_mine, theirs = deployed(), deployed(), deployed("outsider")
    move(as_, made, "attach", mine, also_mine)
    move(as_, made, "attach", theirs, who="outsider")
    work()
    assert allowed(node, theirs) == rules(web(f"{theirs.ipv4}/32"), *OUT)
    assert not any(each.network and theirs.ipv4 in each.network for each in allowed(node, mine))


def test_removing_a_group_opens_its_machines(as_, node, work, deployed, group):
    one, two = deployed(), deployed()
    made = group(HTTP, instances=[one])
    group({**HTTP, "remote_group_id": made}, instances=[two])
    work()
    as_("owner", "DELETE", f"/api/security-group/{made}")
    work()
    assert allowed(node, one) is None
    assert allowed(node, two) == rules(*OUT)


def test_many_changes_are_one_task(as_, node, work, deployed, group):
    one = deployed()
    made = group(instances=[one])
    for port in (80, 81, 82):
        rule = {**HTTP, "port_range_min": port, "port_range_max": port}
        as_("owner", "POST", f"/api/security-group/{made}/rules", json=rule)
    assert len(applied()) == 1
    work()
    assert len([each for each in allowed(node, one) if each.direction == "in"]) == 3
    as_("owner", "POST", f"/api/security-group/{made}/rules", json=HTTP)
    assert len(applied()) == 2


def test_rules_are_there_after_a_restart_of_the_machine(as_, node, work, deployed, group):
    one = deployed()
    group(HTTP, instances=[one])
    work()
    for action in ("poweroff", "start"):
        as_("owner", "POST", f"/api/instance/{one.id}/power/{action}")
        work()
    assert allowed(node, one) == rules(web(), *OUT)


def test_a_node_that_refuses_is_told_of(as_, node, work, deployed, group):
    one = deployed()
    node.fault("set_cards", "refuse", count=1)
    made = group(HTTP, instances=[one])
    work()
    [task] = applied()
    assert (task.status, task.error) == ("failed", "The hypervisor refused this.")
    assert allowed(node, one) is None
    as_("owner", "POST", f"/api/security-group/{made}/rules", json=PING)
    work()
    assert allowed(node, one) == rules(web(), base.Allowed("in", 6, "icmp"), *OUT)


def test_more_rules_than_a_node_can_take_are_told_of(as_, node, work, deployed, group):
    one = deployed()
    made = group(instances=[one])
    for number in range(5):
        body = {"name": "o", "ip_version": "ipv4"}
        offices = as_("owner", "POST", "/api/ip-sets", json=body).json["ip_set"]["id"]
        cidrs = [f"10.{number}.{n}.0/25" for n in range(250)]
        as_("owner", "POST", f"/api/ip-set/{offices}/bulk-add", json={"cidrs": cidrs})
        as_("owner", "POST", f"/api/security-group/{made}/rules", json={**HTTP, "ip_set_id": offices})
        work()
    assert len(allowed(node, one)) == 3 * 250 + len(OUT), "what was applied last holds"
    assert ["1000 are the most" in (task.error or "") for task in applied()][-2:] == [True, True]


def test_a_machine_that_the_node_lost_fails_nothing(node, work, deployed, group):
    one = deployed()
    node.lose(one.id)
    group(HTTP, instances=[one])
    work()
    assert [task.status for task in applied()] == ["completed"]


def test_the_switch_for_mail_is_the_nodes(as_, node, work, deployed):
    """INS-74 and the field `enable_smtp`: port 25 out is shut while it is off."""
    one = deployed()
    assert node.cards_of(one.id)[0]["mail"] is True
    as_("owner", "PATCH", f"/api/instance/{one.id}", json={"enable_smtp": False})
    work()
    assert node.cards_of(one.id)[0]["mail"] is False
    as_("owner", "PATCH", f"/api/instance/{one.id}", json={"notes": "x", "enable_smtp": False})
    assert len(applied()) == 1
    as_("admin", "PATCH", f"/api/v1/instance/{one.id}", json={"enable_smtp": True})
    work()
    assert node.cards_of(one.id)[0]["mail"] is True
