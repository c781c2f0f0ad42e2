"""Backup policies: what real clients send, rules between fields, attaching, and who reaches which."""

import pytest

from panel.core.db import session
from panel.models import BackupPolicy, InstanceBackup
from panel.services import backup_policies
from tests.support.team import add_member  # noqa: F401  (fixture)

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"
BODY = {
    "name": "nightly",
    "full_backup_frequency": "weekly",
    "full_backup_time": "02:30",
    "full_backup_day": 0,
    "max_incremental_chain": 6,
    "retention_count": 14,
    "backup_device": "primary",
}
RULE_MAXIMA = {
    "keep_last": 365,
    "keep_within_days": 3650,
    "keep_daily": 365,
    "keep_weekly": 520,
    "keep_monthly": 120,
    "keep_yearly": 30,
}


@pytest.fixture
def refuse(api_as):
    """Return a function that tries to create a policy, on both surfaces, and returns the fields with errors."""

    def create(**body):
        fields = []
        for caller, prefix in (("owner", "/api"), ("admin", "/api/v1")):
            answer = api_as(caller, "POST", f"{prefix}/backup-policies", json=body)
            assert answer.status_code == 422, answer.text
            fields.append(list(answer.json["errors"]))
        assert fields[0] == fields[1]
        assert session.query(BackupPolicy).count() == 0
        return fields[0]

    return create


def test_policy_as_public_clients_send_it(api_as, create_policy):
    """POL-01"""
    created = create_policy(**BODY)
    assert BODY.items() <= created.items()
    assert (created["retention_mode"], created["status"], created["failures"]) == ("count", "active", 0)
    shown = api_as("owner", "GET", f"/api/backup-policy/{created['id']}").json
    assert shown["policy"] == created | {"instances": []}
    assert api_as("owner", "GET", "/api/backup-policies").json["data"] == [created]
    changed = BODY | {"full_backup_frequency": "daily", "full_backup_day": None, "full_backup_time": "23:59"}
    answer = api_as("owner", "PATCH", f"/api/backup-policy/{created['id']}", json=changed)
    assert changed.items() <= answer.json["policy"].items()
    assert answer.json["policy"]["next_run_at"] != created["next_run_at"]
    assert api_as("owner", "DELETE", f"/api/backup-policy/{created['id']}").status_code == 200
    assert api_as("owner", "GET", f"/api/backup-policy/{created['id']}").status_code == 404


def test_retention_count_is_required_in_count_mode(refuse, create_policy):
    """POL-02, POL-03, POL-22"""
    assert refuse(name="p") == ["retention_count"]
    assert refuse(name="p", retention_mode="count", retention_count=None) == ["retention_count"]
    for wrong in (0, -1, 366, 1.5, "7", True):
        assert refuse(name="p", retention_count=wrong) == ["retention_count"]
    assert create_policy(retention_mode="gfs", retention_count=None, keep_daily=1)["retention_count"] is None


def test_gfs_needs_a_rule(refuse, create_policy):
    """POL-05, POL-06"""
    assert refuse(name="p", retention_mode="gfs") == ["keep_last"]
    assert refuse(name="p", retention_mode="gfs", **dict.fromkeys(RULE_MAXIMA, 0)) == ["keep_last"]
    assert refuse(name="p", retention_mode="gfs", keep_last=None) == ["keep_last"]
    assert create_policy(retention_mode="gfs", keep_daily=1)["keep_daily"] == 1


@pytest.mark.parametrize(("rule", "maximum"), RULE_MAXIMA.items())
def test_maxima_of_rules(refuse, create_policy, rule, maximum):
    """POL-07, POL-08, POL-09, POL-10, POL-11, POL-12"""
    assert refuse(name="p", retention_mode="gfs", **{rule: maximum + 1}) == [rule]
    assert refuse(name="p", retention_mode="gfs", **{rule: -1}) == [rule]
    assert create_policy(retention_mode="gfs", **{rule: maximum})[rule] == maximum


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"retention_mode": "all"}, "retention_mode"),
        ({"full_backup_frequency": "hourly"}, "full_backup_frequency"),
        ({"full_backup_time": "24:00"}, "full_backup_time"),
        ({"full_backup_time": "2:30"}, "full_backup_time"),
        ({"full_backup_time": "02:30:00"}, "full_backup_time"),
        ({"full_backup_time": "02:30\n"}, "full_backup_time"),
        ({"full_backup_day": 7}, "full_backup_day"),
        ({"full_backup_frequency": "weekly", "full_backup_day": None}, "full_backup_day"),
        ({"max_incremental_chain": 31}, "max_incremental_chain"),
        ({"backup_device": "vda"}, "backup_device"),
        ({"next_run_at": "2026-01-02T03:04:05Z"}, "next_run_at"),
    ],
)
def test_wrong_values_are_refused(refuse, create_policy, api_as, change, field):
    """POL-01"""
    assert refuse(**{"name": "p", "retention_count": 1} | change) == [field]
    policy = create_policy(full_backup_day=3)
    answer = api_as("owner", "PATCH", f"/api/backup-policy/{policy['id']}", json=change)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert api_as("owner", "GET", "/api/backup-policies").json["data"] == [policy]


def test_rules_between_fields_apply_to_changes(api_as, create_policy):
    """POL-21"""
    count = create_policy()
    gfs = create_policy(retention_mode="gfs", retention_count=None, keep_daily=3)
    change = lambda policy, **body: api_as("owner", "PATCH", f"/api/backup-policy/{policy['id']}", json=body)  # noqa: E731
    answer = change(count, retention_mode="gfs")
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["keep_last"])
    answer = change(gfs, retention_mode="count")
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["retention_count"])
    assert session.get(BackupPolicy, gfs["id"]).retention_mode == "gfs"
    assert change(gfs, keep_daily=0).status_code == 422
    assert change(count, retention_mode="gfs", keep_last=2).json["policy"]["retention_mode"] == "gfs"
    assert change(gfs, retention_mode="count", retention_count=2).status_code == 200


def test_operator_creates_policy_for_an_account(api_as, create_policy, cast):
    """POL-14, POL-16"""
    policy = create_policy("admin", user_id=cast.owner.id)
    assert (policy["user_id"], policy["owner"]) == (cast.owner.id, "owner@example.com")
    assert [row["id"] for row in api_as("owner", "GET", "/api/backup-policies").json["data"]] == [policy["id"]]
    assert api_as("outsider", "GET", "/api/backup-policies").json["data"] == []
    assert api_as("outsider", "GET", f"/api/backup-policy/{policy['id']}").status_code == 404
    path = f"/api/v1/backup-policy/{policy['id']}"
    assert api_as("admin", "PATCH", path, json={"name": "q"}).json["data"]["name"] == "q"
    own = create_policy()
    answer = api_as("admin", "PATCH", f"/api/v1/backup-policy/{own['id']}", json={"name": "by operator"})
    assert answer.json["data"]["name"] == "by operator"
    for user_id in (UNKNOWN_ID, 7):
        body = {"name": "p", "retention_count": 1, "user_id": user_id}
        answer = api_as("admin", "POST", "/api/v1/backup-policies", json=body)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["user_id"])


def test_instance_is_attached_and_detached(api_as, create_policy, cast):
    """POL-17, POL-19, POL-20"""
    instance, other = cast.instance(), cast.instance()
    policy = create_policy()
    path = f"/api/backup-policy/{policy['id']}"
    for _ in range(2):
        assert api_as("owner", "POST", f"{path}/attach", json={"instance_id": instance.id}).status_code == 200
    shown = api_as("owner", "GET", path).json
    assert [row["id"] for row in shown["policy"]["instances"]] == [instance.id]
    assert [row["id"] for row in shown["available_instances"]] == [other.id]
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["backup_policy_id"] == policy["id"]
    second = create_policy(name="second")
    answer = api_as("owner", "POST", f"/api/backup-policy/{second['id']}/attach", json={"instance_id": instance.id})
    assert (answer.status_code, answer.json["reason"]) == (409, "already_attached")
    assert api_as("owner", "POST", f"{path}/detach", json={"instance_id": instance.id}).status_code == 200
    for policy_id in (policy["id"], second["id"]):
        detach = f"/api/backup-policy/{policy_id}/detach"
        answer = api_as("owner", "POST", detach, json={"instance_id": instance.id})
        assert (answer.status_code, answer.json["reason"]) == (409, "not_attached")
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["backup_policy_id"] is None


def test_platform_policy_takes_any_instance(api_as, create_policy, cast):
    """POL-18"""
    policy = create_policy("admin")
    path = f"/api/v1/backup-policy/{policy['id']}"
    own, foreign = cast.instance(), cast.instance("outsider")
    for instance in (own, foreign):
        assert api_as("admin", "POST", f"{path}/attach", json={"instance_id": instance.id}).status_code == 200
    rows = api_as("admin", "GET", path).json["data"]["instances"]
    assert {row["id"] for row in rows} == {own.id, foreign.id}
    assert api_as("owner", "GET", f"/api/backup-policy/{policy['id']}").status_code == 404
    scoped = create_policy("admin", user_id=cast.owner.id)
    answer = api_as("admin", "POST", f"/api/v1/backup-policy/{scoped['id']}/attach", json={"instance_id": foreign.id})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["instance_id"])
    assert api_as("admin", "POST", f"{path}/detach", json={"instance_id": own.id}).status_code == 200
    answer = api_as("admin", "POST", f"{path}/detach", json={"instance_id": own.id})
    assert (answer.status_code, answer.json["reason"]) == (409, "not_attached")


def test_foreign_instances_are_not_attached(api_as, create_policy, cast):
    policy, foreign = create_policy(), cast.instance("outsider")
    path = f"/api/backup-policy/{policy['id']}/attach"
    for instance_id in (foreign.id, UNKNOWN_ID):
        answer = api_as("owner", "POST", path, json={"instance_id": instance_id})
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["instance_id"])


def test_member_with_chosen_instances_sees_and_attaches_those_only(api_as, create_policy, add_member, cast):
    chosen, hidden = cast.instance(), cast.instance()
    policy = create_policy()
    path = f"/api/backup-policy/{policy['id']}"
    api_as("owner", "POST", f"{path}/attach", json={"instance_id": hidden.id})
    member = add_member("chooser", ["backup_policies.view", "backup_policies.manage", "instances.view"], "chosen")
    body = {"reach": "chosen", "resource_ids": [chosen.id]}
    assert api_as("owner", "PATCH", f"/api/team/subuser/{member.id}/role", json=body).status_code == 200
    shown = api_as("chooser", "GET", path).json
    assert (shown["policy"]["instances"], [row["id"] for row in shown["available_instances"]]) == ([], [chosen.id])
    answer = api_as("chooser", "POST", f"{path}/detach", json={"instance_id": hidden.id})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["instance_id"])
    assert api_as("chooser", "POST", f"{path}/attach", json={"instance_id": chosen.id}).status_code == 200
    assert api_as("chooser", "DELETE", path).status_code == 403


def test_failures_are_reset(api_as, create_policy):
    policy = session.get(BackupPolicy, create_policy()["id"])
    for caller, prefix in (("owner", "/api"), ("admin", "/api/v1")):
        policy.failures, policy.last_error = 3, "broken"
        session.commit()
        assert api_as("owner", "GET", "/api/backup-policies").json["data"][0]["status"] == "error"
        assert api_as(caller, "POST", f"{prefix}/backup-policy/{policy.id}/reset-failures").status_code == 200
        row = api_as("owner", "GET", "/api/backup-policies").json["data"][0]
        assert (row["failures"], row["last_error"], row["status"]) == (0, None, "active")


def test_default_policy_of_a_location(api_as, create_policy, cast, machine, back_up):
    """HVG-04: `default_backup_policy_id`"""
    group = f"/api/v1/hypervisor/group/{cast.location.id}"
    scoped, policy = create_policy(), create_policy("admin")
    answer = api_as("admin", "PATCH", group, json={"default_backup_policy_id": scoped["id"]})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["default_backup_policy_id"])
    answer = api_as("admin", "PATCH", group, json={"default_backup_policy_id": policy["id"]})
    assert answer.json["data"]["default_backup_policy_id"] == policy["id"]
    instance = cast.instance()
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["backup_policy_id"] == policy["id"]
    assert api_as("owner", "GET", f"/api/instance/{machine.id}").json["backup_policy_id"] is None
    assert api_as("admin", "DELETE", f"/api/v1/backup-policy/{policy['id']}").status_code == 200
    assert api_as("admin", "GET", group).json["data"]["default_backup_policy_id"] is None
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["backup_policy_id"] is None


def test_deleted_policy_leaves_its_backups(api_as, create_policy, machine, back_up):
    row = back_up()
    policy = create_policy()
    session.get(InstanceBackup, row["id"]).policy_id = policy["id"]
    session.commit()
    assert api_as("owner", "DELETE", f"/api/backup-policy/{policy['id']}").status_code == 200
    assert [backup["id"] for backup in api_as("owner", "GET", "/api/backups").json["data"]] == [row["id"]]


def test_new_owner_does_not_get_the_policy_of_the_former_one(api_as, create_policy, cast):
    own, platform = cast.instance(), cast.instance()
    scoped, common = create_policy(), create_policy("admin")
    api_as("owner", "POST", f"/api/backup-policy/{scoped['id']}/attach", json={"instance_id": own.id})
    api_as("admin", "POST", f"/api/v1/backup-policy/{common['id']}/attach", json={"instance_id": platform.id})
    for instance, policy_id in ((own, None), (platform, common["id"])):
        path = f"/api/v1/instance/{instance.id}/assign-user"
        answer = api_as("admin", "POST", path, json={"user_id": cast.outsider.id})
        assert answer.status_code == 200, answer.text
        assert api_as("outsider", "GET", f"/api/instance/{instance.id}").json["backup_policy_id"] == policy_id


def test_lists_need_a_constant_number_of_queries(api_as, create_policy, queries, cast):
    def count():
        numbers = []
        for caller, path in (("owner", "/api/backup-policies"), ("admin", "/api/v1/backup-policies")):
            queries.clear()
            assert api_as(caller, "GET", path).status_code == 200
            numbers.append(len(queries))
        return numbers

    create_policy()
    before = count()
    for caller in ("owner", "admin", "outsider"):
        create_policy(caller)
    assert count() == before


def test_destroyed_instance_leaves_its_policy(api_as, create_policy, machine, run_tasks, destination):
    policy = create_policy()
    path = f"/api/backup-policy/{policy['id']}"
    api_as("owner", "POST", f"{path}/attach", json={"instance_id": machine.id})
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{machine.id}")
    run_tasks()
    assert api_as("owner", "GET", path).json["policy"]["instances"] == []
    assert backup_policies.get(policy["id"]).links == []
