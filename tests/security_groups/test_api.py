"""Security groups in the API, in the format that existing clients expect."""

import pytest

from panel.core.db import session
from panel.models import AuditEntry, SecurityGroupMember
from tests.support.cast import UNKNOWN_ID
from tests.support.security_groups import HTTP_RULE

GROUPS_PATH = "/api/security-groups"


@pytest.fixture
def create_group(api_as):
    def make(name="Web", caller="owner", rules=(), **fields):
        answer = api_as(caller, "POST", GROUPS_PATH, json={"name": name, **fields})
        assert answer.status_code == 200, answer.json
        security_group = answer.json["security_group"]
        for rule in rules:
            assert (
                api_as(caller, "POST", f"/api/security-group/{security_group['id']}/rules", json=rule).status_code
                == 200
            )
        return security_group

    return make


@pytest.fixture
def create_platform_group(api_as):
    def make(rules=()):
        group = api_as("admin", "POST", "/api/v1/security-groups", json={"name": "Platform"}).json["data"]
        for rule in rules:
            api_as("admin", "POST", f"/api/v1/security-group/{group['id']}/rules", json=rule)
        return group

    return make


def group_path(group, *parts):
    return "/".join([f"/api/security-group/{group['id']}", *parts])


def test_group_create_read_update_and_delete(api_as, create_group):
    group = create_group(description="Everything that customers reach")
    shown = api_as("owner", "GET", group_path(group)).json
    assert (shown["success"], shown["attached_instances"]) == (True, [])
    assert shown["security_group"]["rules"] == []
    assert shown["security_group"]["description"] == "Everything that customers reach"
    changed = api_as("owner", "PATCH", group_path(group), json={"name": "Front", "description": None})
    assert (changed.json["security_group"]["name"], changed.json["security_group"]["description"]) == ("Front", None)
    assert api_as("owner", "DELETE", group_path(group)).json["success"] is True
    assert api_as("owner", "GET", group_path(group)).status_code == 404


def test_rule_is_returned_as_sent(api_as, create_group):
    group, other = create_group(), create_group("Other")
    addresses = api_as("owner", "POST", "/api/ip-sets", json={"name": "Offices", "ip_version": "ipv4"}).json["ip_set"]
    empty = dict.fromkeys(("port_range_min", "port_range_max", "cidr", "remote_group_id", "ip_set_id", "description"))
    sent = [
        {**HTTP_RULE, "cidr": "10.1.2.3/8", "description": "Browsers"},
        {**HTTP_RULE, "remote_group_id": other["id"]},
        {**HTTP_RULE, "ip_set_id": addresses["id"]},
        {"direction": "egress", "protocol": "all", "ip_version": "ipv6"},
        {"direction": "ingress", "protocol": "icmpv6", "ip_version": "ipv6", "cidr": "2001:DB8::/32"},
        {"direction": "ingress", "protocol": "icmp", "ip_version": "ipv4", "port_range_min": None, "cidr": None},
    ]
    for rule in sent:
        answer = api_as("owner", "POST", group_path(group, "rules"), json=rule).json
        assert answer["rule"] == {"id": answer["rule"]["id"], **empty, **rule}
    shown = api_as("owner", "GET", group_path(group)).json["security_group"]["rules"]
    assert [{name: rule[name] for name in rule if name != "id"} for rule in shown] == [
        {**empty, **rule} for rule in sent
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"direction": "in"}, "direction"),
        ({"protocol": "sctp"}, "protocol"),
        ({"ip_version": "4"}, "ip_version"),
        ({"port_range_min": None}, "port_range_min"),
        ({"port_range_max": None}, "port_range_max"),
        ({"port_range_max": 79}, "port_range_max"),
        ({"port_range_max": 65536}, "port_range_max"),
        ({"port_range_min": 0}, "port_range_min"),
        ({"protocol": "icmp"}, "port_range_min"),
        ({"protocol": "all", "port_range_min": None}, "port_range_min"),
        ({"protocol": "icmpv6", "port_range_min": None, "port_range_max": None}, "protocol"),
        ({"cidr": "2001:db8::/32"}, "cidr"),
        ({"cidr": "everybody"}, "cidr"),
        ({"remote_group_id": UNKNOWN_ID}, "remote_group_id"),
        ({"ip_set_id": UNKNOWN_ID}, "ip_set_id"),
        ({"cidr": "10.0.0.0/8", "remote_group_id": UNKNOWN_ID}, "remote_group_id"),
    ],
)
def test_invalid_rules_are_refused(api_as, create_group, change, field):
    answer = api_as("owner", "POST", group_path(create_group(), "rules"), json={**HTTP_RULE, **change})
    assert answer.status_code == 422
    assert field in answer.json["errors"]


def test_duplicate_rule_is_refused(api_as, create_group):
    group = create_group(rules=[HTTP_RULE])
    assert (
        api_as("owner", "POST", group_path(group, "rules"), json={**HTTP_RULE, "description": "again"}).status_code
        == 422
    )
    assert (
        api_as("owner", "POST", group_path(group, "rules"), json={**HTTP_RULE, "cidr": "10.0.0.0/8"}).status_code == 200
    )


def test_rule_is_deleted_only_through_its_group(api_as, create_group):
    group, other = create_group(rules=[HTTP_RULE]), create_group("Other")
    [rule] = api_as("owner", "GET", group_path(group)).json["security_group"]["rules"]
    assert api_as("owner", "DELETE", group_path(other, "rule", rule["id"])).status_code == 404
    assert api_as("owner", "DELETE", group_path(group, "rule", rule["id"])).json["success"] is True
    assert api_as("owner", "GET", group_path(group)).json["security_group"]["rules"] == []
    assert api_as("owner", "DELETE", group_path(group, "rule", rule["id"])).status_code == 404


def test_rule_refuses_references_to_other_accounts(api_as, create_group):
    foreign = create_group("Theirs", caller="outsider")
    foreign_ip_set = api_as("outsider", "POST", "/api/ip-sets", json={"name": "x", "ip_version": "ipv4"}).json["ip_set"]
    group = create_group()
    for name, foreign_id in (("remote_group_id", foreign["id"]), ("ip_set_id", foreign_ip_set["id"])):
        answer = api_as("owner", "POST", group_path(group, "rules"), json={**HTTP_RULE, name: foreign_id})
        assert (answer.status_code, list(answer.json["errors"])) == (422, [name])
        answer = api_as(
            "admin", "POST", f"/api/v1/security-group/{group['id']}/rules", json={**HTTP_RULE, name: foreign_id}
        )
        assert (answer.status_code, list(answer.json["errors"])) == (422, [name])


def test_instances_are_attached_and_detached(api_as, cast, create_group):
    group = create_group()
    one, two = cast.instance(display_name="One"), cast.instance(display_name="Two")
    body = {"instance_ids": [one.id, two.id]}
    for _ in range(2):
        assert api_as("owner", "POST", group_path(group, "attach-instances"), json=body).status_code == 200
    attached = api_as("owner", "GET", group_path(group)).json["attached_instances"]
    assert attached == [{"id": one.id, "name": "One"}, {"id": two.id, "name": "Two"}]
    row = api_as("owner", "GET", GROUPS_PATH).json["data"][0]
    assert (row["rules_count"], row["instances_count"]) == (0, 2)
    for _ in range(2):
        assert (
            api_as("owner", "POST", group_path(group, "detach-instances"), json={"instance_ids": [one.id]}).status_code
            == 200
        )
    assert [
        attached_instance["id"]
        for attached_instance in api_as("owner", "GET", group_path(group)).json["attached_instances"]
    ] == [two.id]
    api_as("owner", "DELETE", group_path(group))
    assert session.query(SecurityGroupMember).count() == 0


def test_attach_with_unknown_instance_changes_nothing(api_as, cast, create_group):
    group, own_instance, foreign_instance = create_group(), cast.instance(), cast.instance("outsider")
    for wrong in (foreign_instance.id, UNKNOWN_ID):
        for way in ("attach-instances", "detach-instances"):
            answer = api_as("owner", "POST", group_path(group, way), json={"instance_ids": [own_instance.id, wrong]})
            assert (answer.status_code, list(answer.json["errors"])) == (422, ["instance_ids"])
    assert api_as("owner", "POST", group_path(group, "attach-instances"), json={"instance_ids": []}).status_code == 422
    assert api_as("owner", "GET", group_path(group)).json["attached_instances"] == []


def test_instance_is_in_at_most_ten_groups(api_as, cast, create_group):
    instance = cast.instance()
    for number in range(11):
        body = {"instance_ids": [instance.id]}
        answer = api_as("owner", "POST", group_path(create_group(f"g{number}"), "attach-instances"), json=body)
        assert answer.status_code == (200 if number < 10 else 422)


def test_members_see_only_granted_instances(api_as, cast, create_group):
    group, hidden, own = create_group(), cast.instance(), None
    own = api_as(
        "member",
        "POST",
        "/api/cloud-service/instances",
        json={"location_id": cast.location.id, "plan_id": cast.plan.id},
    )
    own = own.json["instance"]["id"]
    api_as("owner", "POST", group_path(group, "attach-instances"), json={"instance_ids": [hidden.id, own]})
    shown = api_as("member", "GET", group_path(group)).json
    assert [attached_instance["id"] for attached_instance in shown["attached_instances"]] == [own]
    assert shown["security_group"]["instances_count"] == 1
    assert (
        api_as("member", "POST", group_path(group, "detach-instances"), json={"instance_ids": [hidden.id]}).status_code
        == 422
    )


def test_group_of_other_account_is_not_found(api_as, create_group):
    group = create_group(rules=[HTTP_RULE])
    for method, *parts in (("GET",), ("PATCH",), ("DELETE",), ("POST", "rules"), ("POST", "attach-instances")):
        body = {"GET": None, "PATCH": {"name": "x"}, "DELETE": None}.get(method, HTTP_RULE)
        body = {"instance_ids": [UNKNOWN_ID]} if parts == ["attach-instances"] else body
        assert api_as("outsider", method, group_path(group, *parts), json=body).status_code == 404
    assert api_as("outsider", "GET", GROUPS_PATH).json["data"] == []


def test_platform_group_is_usable_but_read_only(api_as, cast, create_platform_group):
    platform_group = create_platform_group([HTTP_RULE])
    assert api_as("owner", "GET", GROUPS_PATH).json["data"][0]["is_global"] is True
    [rule] = api_as("owner", "GET", group_path(platform_group)).json["security_group"]["rules"]
    for method, parts, body in (
        ("PATCH", (), {"name": "x"}),
        ("DELETE", (), None),
        ("POST", ("rules",), {**HTTP_RULE, "cidr": "10.0.0.0/8"}),
        ("DELETE", ("rule", rule["id"]), None),
    ):
        assert api_as("owner", method, group_path(platform_group, *parts), json=body).status_code == 403
    own_instance, foreign_instance = cast.instance(), cast.instance("outsider")
    for caller, instance in (("owner", own_instance), ("outsider", foreign_instance)):
        body = {"instance_ids": [instance.id]}
        assert api_as(caller, "POST", group_path(platform_group, "attach-instances"), json=body).status_code == 200
        assert [
            attached_instance["id"]
            for attached_instance in api_as(caller, "GET", group_path(platform_group)).json["attached_instances"]
        ] == [instance.id]
    seen = api_as("admin", "GET", f"/api/v1/security-group/{platform_group['id']}").json["data"]
    assert {attached_instance["id"] for attached_instance in seen["attached_instances"]} == {
        own_instance.id,
        foreign_instance.id,
    }


def test_operators_manage_groups_of_all_accounts(api_as, cast, create_group):
    group = api_as("admin", "POST", "/api/v1/security-groups", json={"name": "For you", "user_id": cast.owner.id}).json[
        "data"
    ]
    assert api_as("owner", "GET", group_path(group)).json["security_group"]["name"] == "For you"
    admin = f"/api/v1/security-group/{group['id']}"
    assert api_as("admin", "PATCH", admin, json={"description": "x"}).json["data"]["description"] == "x"
    rule = api_as("admin", "POST", f"{admin}/rules", json=HTTP_RULE).json["data"]
    again = api_as("admin", "POST", f"{admin}/rules", json={**HTTP_RULE, "cidr": "10.0.0.0/8"}).json["data"]
    foreign = {"instance_ids": [cast.instance("outsider").id]}
    assert api_as("admin", "POST", f"{admin}/attach-instances", json=foreign).status_code == 422
    body = {"instance_ids": [cast.instance().id]}
    assert api_as("admin", "POST", f"{admin}/attach-instances", json=body).status_code == 200
    [row] = api_as("admin", "GET", "/api/v1/security-groups").json["data"]
    assert (row["account_id"], row["rules_count"], row["instances_count"]) == (cast.owner.id, 2, 1)
    assert api_as("admin", "POST", f"{admin}/detach-instances", json=body).status_code == 200
    assert api_as("admin", "DELETE", f"{admin}/rule/{rule['id']}").status_code == 200
    assert api_as("admin", "DELETE", f"{admin}/rules/{again['id']}").status_code == 200
    assert api_as("admin", "DELETE", admin).status_code == 200
    assert api_as("admin", "GET", admin).status_code == 404
    unknown = {"name": "x", "user_id": UNKNOWN_ID}
    assert api_as("admin", "POST", "/api/v1/security-groups", json=unknown).status_code == 422


def test_group_list_query_count_is_constant(api_as, cast, create_group, queries):
    def count_queries():
        queries.clear()
        api_as("owner", "GET", GROUPS_PATH)
        return len(queries)

    create_group("one", rules=[HTTP_RULE])
    api_as("owner", "GET", GROUPS_PATH)
    before = count_queries()
    for number in range(5):
        create_group(f"g{number}", rules=[HTTP_RULE])
    assert count_queries() == before


def test_group_changes_are_audited(api_as, cast, create_group):
    group = create_group()
    api_as("owner", "POST", group_path(group, "attach-instances"), json={"instance_ids": [cast.instance().id]})
    entry = session.query(AuditEntry).order_by(AuditEntry.id.desc()).first()
    assert (entry.object_type, entry.object_id) == ("security_group", group["id"])
