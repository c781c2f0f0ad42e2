"""Hypervisor groups with restricted access: grants, visibility, and existing resources."""

import pytest

from panel.core.db import session
from panel.models import AuditEntry, HypervisorGroup, LocationGrant
from panel.services import settings, volume_plans
from tests.support.cast import UNKNOWN_ID

ADMIN_API_PATH = "/api/v1"


@pytest.fixture
def path(cast):
    return f"{ADMIN_API_PATH}/hypervisor/group/{cast.location.id}"


@pytest.fixture
def close_location(api_as, path):
    def close(*account_ids, public=False):
        body = {"public": public, "account_ids": list(account_ids)}
        answer = api_as("admin", "PUT", f"{path}/access", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json["data"]

    return close


def request_instance(as_, cast, caller):
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    return as_(caller, "POST", "/api/cloud-service/instances", json=body)


def list_locations(as_, caller):
    return [location["name"] for location in as_(caller, "GET", "/api/cloud-service/locations").json["data"]]


def test_public_group_is_visible_to_all_customers(api_as, cast, path):
    assert api_as("admin", "GET", path).json["data"]["public"] is True
    assert list_locations(api_as, "outsider") == ["lab"]


def test_closed_location_is_like_unknown_location(api_as, cast, close_location):
    """The answers are the same as for an unknown id, so they do not reveal the location."""
    assert close_location(cast.owner.id)["grants"] == 1
    assert (
        list_locations(api_as, "owner"),
        list_locations(api_as, "member"),
        list_locations(api_as, "outsider"),
    ) == (["lab"], ["lab"], [])
    place = f"/api/cloud-service/location/{cast.location.id}/plan-groups"
    unknown = f"/api/cloud-service/location/{UNKNOWN_ID}/plan-groups"
    refused, missing = api_as("outsider", "GET", place), api_as("outsider", "GET", unknown)
    assert (refused.status_code, refused.json) == (404, missing.json)
    assert api_as("owner", "GET", place).status_code == 200
    refused = request_instance(api_as, cast, "outsider")
    other = {"location_id": UNKNOWN_ID, "plan_id": cast.plan.id}
    assert refused.status_code == 422
    assert refused.json == api_as("outsider", "POST", "/api/cloud-service/instances", json=other).json
    assert request_instance(api_as, cast, "owner").status_code == 200
    assert request_instance(api_as, cast, "member").status_code == 200


def test_self_provisioning_does_not_reveal_closed_location(api_as, cast, close_location):
    """The answer does not reveal whether the plan exists."""
    settings.update({"billing_enabled": True})
    close_location(cast.owner.id)
    body = {"location_id": cast.location.id, "plan_id": UNKNOWN_ID}
    answers = [
        api_as("outsider", "POST", "/api/self-provisioning/instances", json={**body, "location_id": place})
        for place in (cast.location.id, UNKNOWN_ID)
    ]
    assert (answers[0].status_code, answers[0].json) == (422, answers[1].json)
    assert list(answers[0].json["errors"]) == ["location_id"]


def test_closed_location_refuses_volumes(api_as, cast, close_location):
    settings.update({"billing_enabled": True})
    group = volume_plans.create_group(name="ssd")
    plan = volume_plans.create(group, name="small", size=1, price=1)
    session.commit()
    close_location(cast.owner.id)
    body = {"name": "data", "volume_plan_id": plan.id, "hypervisor_group_id": cast.location.id}
    for caller, status in (("outsider", 422), ("owner", 200)):
        answer = api_as(caller, "POST", "/api/storage/volumes", json=body)
        assert answer.status_code == status, answer.text
        choices = api_as(caller, "GET", "/api/storage/volumes/create").json["hypervisor_groups"]
        assert len(choices) == (status == 200)
    assert answer.json["success"]


def test_operator_create_requires_grant_or_hypervisor(api_as, cast, close_location):
    close_location()
    body = {"user_id": cast.outsider.id, "location_id": cast.location.id, "plan_id": cast.plan.id}
    assert api_as("admin", "POST", f"{ADMIN_API_PATH}/instances", json=body).json["errors"].keys() == {"location_id"}
    assert api_as(
        "admin", "POST", f"{ADMIN_API_PATH}/instances", json={**body, "hypervisor_id": cast.node.id}
    ).status_code in (
        200,
        201,
    )


def test_closed_location_keeps_existing_instances(api_as, cast, close_location, run_tasks):
    instance = cast.instance("outsider")
    close_location()
    assert api_as("outsider", "GET", f"/api/instance/{instance.id}").status_code == 200
    deploy = api_as("outsider", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    assert deploy.status_code == 200
    run_tasks()
    assert api_as("outsider", "POST", f"/api/instance/{instance.id}/power/restart").status_code == 200


def test_grants_are_listed_searched_and_revoked(api_as, cast, close_location, path, queries):
    close_location(cast.owner.id, cast.outsider.id)
    rows = api_as("admin", "GET", f"{path}/grants").json["data"]
    assert [row["email"] for row in rows] == ["outsider@example.com", "owner@example.com"]
    assert [row["account_id"] for row in api_as("admin", "GET", f"{path}/grants?search=out").json["data"]] == [
        cast.outsider.id
    ]
    one = f"{ADMIN_API_PATH}/user/{cast.outsider.id}/hypervisor-groups"
    (group,) = api_as("admin", "GET", one).json["data"]
    assert (group["id"], group["public"], group["granted"]) == (cast.location.id, False, True)
    for _ in range(2):
        assert api_as("admin", "DELETE", f"{one}/{cast.location.id}").status_code == 200
        assert api_as("admin", "GET", one).json["data"] == []
    for _ in range(2):
        assert api_as("admin", "PUT", f"{one}/{cast.location.id}").status_code == 200
    assert session.query(LocationGrant).count() == 2
    assert list_locations(api_as, "outsider") == ["lab"]


def test_grant_change_is_audited(api_as, cast):
    api_as("admin", "PUT", f"{ADMIN_API_PATH}/user/{cast.outsider.id}/hypervisor-groups/{cast.location.id}")
    entry = session.query(AuditEntry).one()
    assert (entry.object_type, entry.object_id, entry.changes["fields"]) == (
        "hypervisor_group",
        cast.location.id,
        ["grants"],
    )


def test_team_members_use_grants_of_owner(api_as, cast, close_location, path):
    refused = api_as("admin", "PUT", f"{ADMIN_API_PATH}/user/{cast.member.id}/hypervisor-groups/{cast.location.id}")
    assert (refused.status_code, refused.json["errors"].keys()) == (422, {"account_id"})
    body = {"public": False, "account_ids": [cast.member.id]}
    assert api_as("admin", "PUT", f"{path}/access", json=body).json["errors"].keys() == {"account_ids"}
    emails = {row["email"] for row in api_as("admin", "GET", f"{ADMIN_API_PATH}/grantable-account-owners").json["data"]}
    assert emails == {"owner@example.com", "outsider@example.com"}
    assert len(api_as("admin", "GET", f"{ADMIN_API_PATH}/grantable-account-owners?search=outs").json["data"]) == 1


def test_affected_count_of_access_change(api_as, cast, close_location, path):
    cast.instance("outsider"), cast.instance("outsider")
    cast.instance("owner")
    count_affected = lambda **body: api_as("admin", "POST", f"{path}/affected-count", json=body).json["data"]  # noqa: E731
    assert count_affected(public=False) == {"accounts": 2, "accounts_with_instances": 2, "instances": 3}
    assert count_affected(public=False, account_ids=[cast.owner.id]) == {
        "accounts": 1,
        "accounts_with_instances": 1,
        "instances": 2,
    }
    assert count_affected(public=True) == {"accounts": 0, "accounts_with_instances": 0, "instances": 0}
    close_location(cast.outsider.id)
    assert count_affected(public=False, account_ids=[]) == {"accounts": 1, "accounts_with_instances": 1, "instances": 2}
    assert session.get(HypervisorGroup, cast.location.id).public is False


def test_unknown_ids_are_refused(api_as, cast, path):
    unknown = "0199c0a8-0000-7000-8000-000000000000"
    body = {"public": False, "account_ids": [unknown]}
    assert api_as("admin", "PUT", f"{path}/access", json=body).json["errors"].keys() == {"account_ids"}
    for method in ("PUT", "DELETE"):
        for account, group in ((unknown, cast.location.id), (cast.owner.id, unknown)):
            assert (
                api_as("admin", method, f"{ADMIN_API_PATH}/user/{account}/hypervisor-groups/{group}").status_code == 404
            )
    assert session.get(HypervisorGroup, cast.location.id).public is True


def test_grant_list_query_count_is_constant(api_as, cast, close_location, path, queries):
    close_location(cast.owner.id)
    api_as("admin", "GET", f"{path}/grants")
    queries.clear()
    api_as("admin", "GET", f"{path}/grants")
    few = len(queries)
    close_location(cast.owner.id, cast.outsider.id)
    queries.clear()
    assert len(api_as("admin", "GET", f"{path}/grants").json["data"]) == 2
    assert len(queries) == few
