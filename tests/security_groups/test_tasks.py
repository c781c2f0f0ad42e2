"""Firewall rules on the node, and when they are applied again."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import Task
from tests.support.security_groups import (  # noqa: F401  (fixtures)
    HTTP_RULE,
    PING_RULE,
    change_attachment,
    create_group,
    deploy_instance,
    read_allowed_traffic,
)
from worker.nodes import base

DNS_RULE = {"direction": "egress", "protocol": "udp", "ip_version": "ipv4", "port_range_min": 53, "port_range_max": 53}
EGRESS_ALLOWED = [base.FirewallRule("out", 4), base.FirewallRule("out", 6)]


def sort_rules(*rules):
    return sorted(rules, key=repr)


def build_http_rule(network=None):
    return base.FirewallRule("in", 4, "tcp", (80, 443), network)


def list_firewall_tasks():
    return session.scalars(select(Task).where(Task.kind == "firewall_apply").order_by(Task.id)).all()


def test_instance_without_group_allows_all_traffic(node, deploy_instance):
    assert read_allowed_traffic(node, deploy_instance()) is None


def test_running_instance_rules_follow_attachment(api_as, node, run_tasks, deploy_instance, create_group):
    one = deploy_instance()
    group_id = create_group(HTTP_RULE, PING_RULE, instances=[one])
    run_tasks()
    assert read_allowed_traffic(node, one) == sort_rules(
        build_http_rule(), base.FirewallRule("in", 6, "icmp"), *EGRESS_ALLOWED
    )
    change_attachment(api_as, group_id, "detach", one)
    run_tasks()
    assert read_allowed_traffic(node, one) is None


def test_group_without_rules_blocks_inbound_traffic(node, run_tasks, deploy_instance, create_group):
    one = deploy_instance()
    create_group(instances=[one])
    run_tasks()
    assert read_allowed_traffic(node, one) == sort_rules(*EGRESS_ALLOWED)


def test_egress_rule_blocks_other_outbound_traffic(node, run_tasks, deploy_instance, create_group):
    one = deploy_instance()
    create_group(DNS_RULE, instances=[one])
    run_tasks()
    assert read_allowed_traffic(node, one) == [base.FirewallRule("out", 4, "udp", (53, 53))]


def test_rules_of_all_groups_are_combined(api_as, node, run_tasks, deploy_instance, create_group):
    one = deploy_instance()
    create_group({**HTTP_RULE, "cidr": "10.1.2.3/8"}, instances=[one])
    create_group({**HTTP_RULE, "cidr": "10.0.0.0/8"}, DNS_RULE, instances=[one])
    run_tasks()
    assert read_allowed_traffic(node, one) == sort_rules(
        build_http_rule("10.0.0.0/8"), base.FirewallRule("out", 4, "udp", (53, 53))
    )


def test_deployed_instance_starts_with_rules(api_as, cast, node, run_tasks, create_group):
    one = cast.instance()
    create_group(HTTP_RULE, instances=[one])
    assert list_firewall_tasks() == []
    api_as("owner", "POST", f"/api/instance/{one.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert read_allowed_traffic(node, one) == sort_rules(build_http_rule(), *EGRESS_ALLOWED)


def test_attachment_during_deployment_is_applied(api_as, cast, node, run_tasks, create_group, monkeypatch):
    """The group is attached after the deployment has read the rules and before it completes."""
    one, group_id = cast.instance(), create_group(HTTP_RULE)
    api_as("owner", "POST", f"/api/instance/{one.id}/deploy", json={"image_id": cast.image.id})
    define = type(node).define

    def define_and_attach(self, machine):
        define(self, machine)
        change_attachment(api_as, group_id, "attach", one)

    monkeypatch.setattr(type(node), "define", define_and_attach)
    run_tasks()
    assert read_allowed_traffic(node, one) == sort_rules(build_http_rule(), *EGRESS_ALLOWED)


def test_rule_and_ip_set_changes_reach_all_instances(api_as, node, run_tasks, deploy_instance, create_group):
    one, two = deploy_instance(), deploy_instance()
    offices = api_as("owner", "POST", "/api/ip-sets", json={"name": "o", "ip_version": "ipv4"}).json["ip_set"]["id"]
    group_id = create_group({**HTTP_RULE, "ip_set_id": offices}, instances=[one, two])
    run_tasks()
    assert read_allowed_traffic(node, one) == sort_rules(*EGRESS_ALLOWED)
    body = {"cidrs": ["10.0.0.0/9", "10.128.0.0/9", "192.0.2.1"]}
    created = api_as("owner", "POST", f"/api/ip-set/{offices}/bulk-add", json=body).json["created"]
    run_tasks()
    assert (
        read_allowed_traffic(node, one)
        == read_allowed_traffic(node, two)
        == sort_rules(build_http_rule("10.0.0.0/8"), build_http_rule("192.0.2.1/32"), *EGRESS_ALLOWED)
    )
    api_as("owner", "DELETE", f"/api/ip-set/{offices}/entry/{created[2]['id']}")
    run_tasks()
    assert read_allowed_traffic(node, two) == sort_rules(build_http_rule("10.0.0.0/8"), *EGRESS_ALLOWED)
    [rule] = api_as("owner", "GET", f"/api/security-group/{group_id}").json["security_group"]["rules"]
    api_as("owner", "DELETE", f"/api/security-group/{group_id}/rule/{rule['id']}")
    run_tasks()
    assert read_allowed_traffic(node, one) == sort_rules(*EGRESS_ALLOWED)


def test_remote_group_rule_follows_membership(api_as, node, run_tasks, deploy_instance, create_group):
    server, client, other = deploy_instance(), deploy_instance(), deploy_instance()
    clients = create_group(instances=[client])
    create_group({**HTTP_RULE, "remote_group_id": clients}, instances=[server])
    run_tasks()
    assert read_allowed_traffic(node, server) == sort_rules(build_http_rule(f"{client.ipv4}/32"), *EGRESS_ALLOWED)
    change_attachment(api_as, clients, "attach", other)
    run_tasks()
    both = {f"{client.ipv4}/32", f"{other.ipv4}/32"}
    assert {rule.network for rule in read_allowed_traffic(node, server) if rule.direction == "in"} <= {
        *both,
        "10.9.0.2/31",
    }
    change_attachment(api_as, clients, "detach", client)
    run_tasks()
    assert read_allowed_traffic(node, server) == sort_rules(build_http_rule(f"{other.ipv4}/32"), *EGRESS_ALLOWED)


def test_deleted_instance_address_is_removed_from_rules(api_as, node, run_tasks, deploy_instance, create_group):
    server, client = deploy_instance(), deploy_instance()
    clients = create_group(instances=[client])
    create_group({**HTTP_RULE, "remote_group_id": clients}, instances=[server])
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{client.id}")
    run_tasks()
    assert read_allowed_traffic(node, server) == sort_rules(*EGRESS_ALLOWED)


def test_platform_remote_group_rule_excludes_other_customers(api_as, node, run_tasks, deploy_instance):
    group_id = api_as("admin", "POST", "/api/v1/security-groups", json={"name": "Inside"}).json["data"]["id"]
    rule = {**HTTP_RULE, "remote_group_id": group_id}
    assert api_as("admin", "POST", f"/api/v1/security-group/{group_id}/rules", json=rule).status_code == 200
    own_instance, also_mine, foreign_instance = deploy_instance(), deploy_instance(), deploy_instance("outsider")
    change_attachment(api_as, group_id, "attach", own_instance, also_mine)
    change_attachment(api_as, group_id, "attach", foreign_instance, caller="outsider")
    run_tasks()
    assert read_allowed_traffic(node, foreign_instance) == sort_rules(
        build_http_rule(f"{foreign_instance.ipv4}/32"), *EGRESS_ALLOWED
    )
    assert not any(
        rule.network and foreign_instance.ipv4 in rule.network for rule in read_allowed_traffic(node, own_instance)
    )


def test_group_deletion_removes_rules_from_instances(api_as, node, run_tasks, deploy_instance, create_group):
    one, two = deploy_instance(), deploy_instance()
    group_id = create_group(HTTP_RULE, instances=[one])
    create_group({**HTTP_RULE, "remote_group_id": group_id}, instances=[two])
    run_tasks()
    api_as("owner", "DELETE", f"/api/security-group/{group_id}")
    run_tasks()
    assert read_allowed_traffic(node, one) is None
    assert read_allowed_traffic(node, two) == sort_rules(*EGRESS_ALLOWED)


def test_many_rule_changes_share_one_task(api_as, node, run_tasks, deploy_instance, create_group):
    one = deploy_instance()
    group_id = create_group(instances=[one])
    for port in (80, 81, 82):
        rule = {**HTTP_RULE, "port_range_min": port, "port_range_max": port}
        api_as("owner", "POST", f"/api/security-group/{group_id}/rules", json=rule)
    assert len(list_firewall_tasks()) == 1
    run_tasks()
    assert len([rule for rule in read_allowed_traffic(node, one) if rule.direction == "in"]) == 3
    api_as("owner", "POST", f"/api/security-group/{group_id}/rules", json=HTTP_RULE)
    assert len(list_firewall_tasks()) == 2


def test_rules_persist_after_instance_restart(api_as, node, run_tasks, deploy_instance, create_group):
    one = deploy_instance()
    create_group(HTTP_RULE, instances=[one])
    run_tasks()
    for action in ("poweroff", "start"):
        api_as("owner", "POST", f"/api/instance/{one.id}/power/{action}")
        run_tasks()
    assert read_allowed_traffic(node, one) == sort_rules(build_http_rule(), *EGRESS_ALLOWED)


def test_refused_firewall_update_fails_task(api_as, node, run_tasks, deploy_instance, create_group):
    one = deploy_instance()
    node.fault("update_nics", "refuse", count=1)
    group_id = create_group(HTTP_RULE, instances=[one])
    run_tasks()
    [task] = list_firewall_tasks()
    assert (task.status, task.error) == ("failed", "The hypervisor refused this.")
    assert read_allowed_traffic(node, one) is None
    api_as("owner", "POST", f"/api/security-group/{group_id}/rules", json=PING_RULE)
    run_tasks()
    assert read_allowed_traffic(node, one) == sort_rules(
        build_http_rule(), base.FirewallRule("in", 6, "icmp"), *EGRESS_ALLOWED
    )


def test_more_rules_than_node_maximum_fail_task(api_as, node, run_tasks, deploy_instance, create_group):
    one = deploy_instance()
    group_id = create_group(instances=[one])
    for number in range(5):
        body = {"name": "o", "ip_version": "ipv4"}
        offices = api_as("owner", "POST", "/api/ip-sets", json=body).json["ip_set"]["id"]
        cidrs = [f"10.{number}.{n}.0/25" for n in range(250)]
        api_as("owner", "POST", f"/api/ip-set/{offices}/bulk-add", json={"cidrs": cidrs})
        api_as("owner", "POST", f"/api/security-group/{group_id}/rules", json={**HTTP_RULE, "ip_set_id": offices})
        run_tasks()
    assert len(read_allowed_traffic(node, one)) == 3 * 250 + len(EGRESS_ALLOWED), (
        "the last applied rules stay in effect"
    )
    assert ["at most 1000 are possible" in (task.error or "") for task in list_firewall_tasks()][-2:] == [True, True]


def test_missing_machine_does_not_fail_firewall_task(node, run_tasks, deploy_instance, create_group):
    one = deploy_instance()
    node.external_delete(one.id)
    create_group(HTTP_RULE, instances=[one])
    run_tasks()
    assert [task.status for task in list_firewall_tasks()] == ["completed"]


def test_enable_smtp_is_applied_on_node(api_as, node, run_tasks, deploy_instance):
    """INS-74 and the field `enable_smtp`: outbound port 25 is blocked while it is off."""
    one = deploy_instance()
    assert node.get_nics(one.id)[0]["mail"] is True
    api_as("owner", "PATCH", f"/api/instance/{one.id}", json={"enable_smtp": False})
    run_tasks()
    assert node.get_nics(one.id)[0]["mail"] is False
    api_as("owner", "PATCH", f"/api/instance/{one.id}", json={"notes": "x", "enable_smtp": False})
    assert len(list_firewall_tasks()) == 1
    api_as("admin", "PATCH", f"/api/v1/instance/{one.id}", json={"enable_smtp": True})
    run_tasks()
    assert node.get_nics(one.id)[0]["mail"] is True
