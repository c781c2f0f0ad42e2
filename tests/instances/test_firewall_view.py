"""The firewall view of an instance: the API shows the rules that the node receives."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import Member
from panel.services import tokens
from tests.support.security_groups import HTTP_RULE, PING_RULE, create_group, deploy_instance, read_allowed_traffic  # noqa: F401  (fixtures)


def get_firewall(as_, instance, caller="owner"):
    return as_(caller, "GET", f"/api/instance/{instance.id}/firewall")


def test_instance_without_groups_is_unrestricted(api_as, cast):
    instance = cast.instance()
    instance.enable_smtp = False
    session.commit()
    assert get_firewall(api_as, instance).json["firewall"] == {
        "restricted": False,
        "smtp_blocked": True,
        "security_groups": [],
        "rules": [],
    }
    assert get_firewall(api_as, instance, "outsider").status_code == 404


def test_firewall_combines_rules_of_all_groups(api_as, deploy_instance, create_group, run_tasks, node):
    instance = deploy_instance()
    ids = [create_group(HTTP_RULE, instances=[instance]), create_group(HTTP_RULE, PING_RULE, instances=[instance])]
    run_tasks()
    firewall = get_firewall(api_as, instance).json["firewall"]
    assert firewall["restricted"] is True
    assert {security_group["id"] for security_group in firewall["security_groups"]} == set(ids)
    assert len(firewall["rules"]) == len(read_allowed_traffic(node, instance)) == 4
    [web] = [rule for rule in firewall["rules"] if rule["protocol"] == "tcp"]
    assert (web["direction"], web["port_range_min"]) == ("ingress", HTTP_RULE["port_range_min"])


def test_remote_group_is_shown_as_addresses(api_as, deploy_instance, create_group, run_tasks, queries):
    web, shop = deploy_instance(), deploy_instance()
    inside = create_group(instances=[shop])
    referring = {"direction": "ingress", "protocol": "all", "ip_version": "ipv4", "remote_group_id": inside}
    create_group(referring, instances=[web])
    [rule] = [
        shown_rule
        for shown_rule in get_firewall(api_as, web).json["firewall"]["rules"]
        if shown_rule["direction"] == "ingress"
    ]
    assert rule["networks"] == [f"{shop.ipv4}/32"]


def test_firewall_requires_instance_and_security_group_permissions(api_as, browser_as, cast):
    """IDT-22: the scope comes from the path, so a token needs only `instances:read`; the person needs the
    permissions of both families, as on the page."""
    instance = cast.instance()
    role = session.scalar(select(Member).where(Member.account_id == cast.viewer.id)).role
    cast.tokens["alone"] = tokens.issue("user", name="n", account=cast.viewer, scopes=["instances:read"])[1]
    role.permissions = ["instances.view", "security_groups.view"]
    session.commit()
    assert get_firewall(api_as, instance, "alone").status_code == 200
    role.permissions = ["instances.view"]
    session.commit()
    answer = get_firewall(api_as, instance, "alone")
    assert (answer.status_code, "security_groups.view" in answer.json["message"]) == (403, True)
    assert "security_groups.view" in browser_as("viewer").get(f"/instances/{instance.id}/network").text
    role.permissions = ["security_groups.view"]
    session.commit()
    assert "instances.view" in get_firewall(api_as, instance, "viewer").json["message"]
