"""The firewall of an instance in one view: what the API shows is what the node is told."""

from panel.db import session
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
