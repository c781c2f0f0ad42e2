"""The firewall of an instance in one view: what the API shows is what the node is told."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import Member
from panel.services import tokens
from tests.security_groups.test_api import HTTP
from tests.security_groups.test_tasks import PING, allowed, deployed, group  # noqa: F401  (fixtures)


def shown(as_, instance, who="owner"):
    return as_(who, "GET", f"/api/instance/{instance.id}/firewall")


def test_in_no_group_everything_passes(as_, cast):
    instance = cast.instance()
    instance.enable_smtp = False
    session.commit()
    assert shown(as_, instance).json["firewall"] == {
        "restricted": False,
        "smtp_blocked": True,
        "security_groups": [],
        "rules": [],
    }
    assert shown(as_, instance, "outsider").status_code == 404


def test_the_rules_of_all_groups_add_up(as_, deployed, group, work, node):  # noqa: F811
    instance = deployed()
    ids = [group(HTTP, instances=[instance]), group(HTTP, PING, instances=[instance])]
    work()
    found = shown(as_, instance).json["firewall"]
    assert found["restricted"] is True
    assert {each["id"] for each in found["security_groups"]} == set(ids)
    assert len(found["rules"]) == len(allowed(node, instance)) == 4
    [web] = [rule for rule in found["rules"] if rule["protocol"] == "tcp"]
    assert (web["direction"], web["port_range_min"]) == ("ingress", HTTP["port_range_min"])


def test_a_group_that_is_referred_to_is_shown_by_its_addresses(as_, deployed, group, work, queries):  # noqa: F811
    web, shop = deployed(), deployed()
    inside = group(instances=[shop])
    referring = {"direction": "ingress", "protocol": "all", "ip_version": "ipv4", "remote_group_id": inside}
    group(referring, instances=[web])
    [rule] = [each for each in shown(as_, web).json["firewall"]["rules"] if each["direction"] == "ingress"]
    assert rule["networks"] == [f"{shop.ipv4}/32"]


def test_a_member_needs_the_right_to_see_security_groups_as_well(as_, browse, cast):
    """IDT-22: the scope comes from the path, so a token of `instances:read` alone is enough; of the person both
    families are asked, here as on the page."""
    instance = cast.instance()
    role = session.scalar(select(Member).where(Member.account_id == cast.viewer.id)).role
    cast.tokens["alone"] = tokens.issue("user", name="n", account=cast.viewer, scopes=["instances:read"])[1]
    role.permissions = ["instances.view", "security_groups.view"]
    session.commit()
    assert shown(as_, instance, "alone").status_code == 200
    role.permissions = ["instances.view"]
    session.commit()
    answer = shown(as_, instance, "alone")
    assert (answer.status_code, "security_groups.view" in answer.json["message"]) == (403, True)
    assert "security_groups.view" in browse("viewer").get(f"/instances/{instance.id}/network").text
    role.permissions = ["security_groups.view"]
    session.commit()
    assert "instances.view" in shown(as_, instance, "viewer").json["message"]
