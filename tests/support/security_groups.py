"""Security groups, attached instances, and the rules that reach the node."""

import pytest

from worker.nodes import base

HTTP_RULE = {
    "direction": "ingress",
    "protocol": "tcp",
    "ip_version": "ipv4",
    "port_range_min": 80,
    "port_range_max": 443,
}

PING_RULE = {"direction": "ingress", "protocol": "icmpv6", "ip_version": "ipv6"}


@pytest.fixture
def deploy_instance(api_as, cast, run_tasks):
    def make(caller="owner", **values):
        instance = cast.instance(caller, **values)
        api_as(caller, "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
        run_tasks()
        return instance

    return make


@pytest.fixture
def create_group(api_as):
    def make(*sort_rules, instances=(), caller="owner"):
        group_id = api_as(caller, "POST", "/api/security-groups", json={"name": "g"}).json["security_group"]["id"]
        for rule in sort_rules:
            assert api_as(caller, "POST", f"/api/security-group/{group_id}/rules", json=rule).status_code == 200
        change_attachment(api_as, group_id, "attach", *instances, caller=caller)
        return group_id

    return make


def change_attachment(as_, group, way, *instances, caller="owner"):
    if instances:
        body = {"instance_ids": [instance.id for instance in instances]}
        assert as_(caller, "POST", f"/api/security-group/{group}/{way}-instances", json=body).status_code == 200


def read_allowed_traffic(node, instance):
    """Return the firewall rules on the node, sorted; None if all traffic is allowed."""
    [card] = node.get_nics(instance.id)
    if card["allowed"] is None:
        return None
    rules = [{**rule, "ports": rule["ports"] and tuple(rule["ports"])} for rule in card["allowed"]]
    return sorted((base.FirewallRule(**rule) for rule in rules), key=repr)
