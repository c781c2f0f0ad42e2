"""Hypervisor groups that are not for everybody: who may choose them, who sees them, and what goes on."""

import pytest

from panel.core.db import session
from panel.models import AuditEntry, HypervisorGroup, LocationGrant
from panel.services import settings, volume_plans

V1 = "/api/v1"
UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture
def path(cast):
    return f"{V1}/hypervisor/group/{cast.location.id}"


@pytest.fixture
def close_location(api_as, path):
    def closed(*account_ids, public=False):
        body = {"public": public, "account_ids": list(account_ids)}
        answer = api_as("admin", "PUT", f"{path}/access", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json["data"]

    return closed


def order(as_, cast, who):
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    return as_(who, "POST", "/api/cloud-service/instances", json=body)


def visible_locations(as_, who):
    return [each["name"] for each in as_(who, "GET", "/api/cloud-service/locations").json["data"]]


def test_every_customer_may_choose_a_group_that_nobody_closed(api_as, cast, path):
    assert api_as("admin", "GET", path).json["data"]["public"] is True
    assert visible_locations(api_as, "outsider") == ["lab"]


def test_a_closed_group_is_an_unknown_location(api_as, cast, close_location):
    """The same answers as for an id that does not exist: nothing tells that there is such a place."""
    assert close_location(cast.owner.id)["grants"] == 1
    assert (
        visible_locations(api_as, "owner"),
        visible_locations(api_as, "member"),
        visible_locations(api_as, "outsider"),
    ) == (["lab"], ["lab"], [])
    place = f"/api/cloud-service/location/{cast.location.id}/plan-groups"
    unknown = f"/api/cloud-service/location/{UNKNOWN_ID}/plan-groups"
    refused, missing = api_as("outsider", "GET", place), api_as("outsider", "GET", unknown)
    assert (refused.status_code, refused.json) == (404, missing.json)
    assert api_as("owner", "GET", place).status_code == 200
    refused = order(api_as, cast, "outsider")
    other = {"location_id": UNKNOWN_ID, "plan_id": cast.plan.id}
    assert refused.status_code == 422
    assert refused.json == api_as("outsider", "POST", "/api/cloud-service/instances", json=other).json
    assert order(api_as, cast, "owner").status_code == 200
    assert order(api_as, cast, "member").status_code == 200


def test_self_provisioning_tells_no_more_of_it(api_as, cast, close_location):
    """Not even whether a plan is there."""
    settings.update({"billing_enabled": True})
    close_location(cast.owner.id)
    order = {"location_id": cast.location.id, "plan_id": UNKNOWN_ID}
    told = [
        api_as("outsider", "POST", "/api/self-provisioning/instances", json={**order, "location_id": place})
        for place in (cast.location.id, UNKNOWN_ID)
    ]
    assert (told[0].status_code, told[0].json) == (422, told[1].json)
    assert list(told[0].json["errors"]) == ["location_id"]


def test_closed_location_refuses_volumes(api_as, cast, close_location):
    settings.update({"billing_enabled": True})
    group = volume_plans.create_group(name="ssd")
    plan = volume_plans.create(group, name="small", size=1, price=1)
    session.commit()
    close_location(cast.owner.id)
    body = {"name": "data", "volume_plan_id": plan.id, "hypervisor_group_id": cast.location.id}
    for who, status in (("outsider", 422), ("owner", 200)):
        answer = api_as(who, "POST", "/api/storage/volumes", json=body)
        assert answer.status_code == status, answer.text
        choices = api_as(who, "GET", "/api/storage/volumes/create").json["hypervisor_groups"]
        assert len(choices) == (status == 200)
    assert answer.json["success"]


def test_an_operator_who_creates_for_a_customer_minds_the_grant_unless_a_hypervisor_is_named(
    api_as, cast, close_location
):
    close_location()
    body = {"user_id": cast.outsider.id, "location_id": cast.location.id, "plan_id": cast.plan.id}
    assert api_as("admin", "POST", f"{V1}/instances", json=body).json["errors"].keys() == {"location_id"}
    assert api_as("admin", "POST", f"{V1}/instances", json={**body, "hypervisor_id": cast.node.id}).status_code in (
        200,
        201,
    )


def test_closed_location_keeps_existing_instances(api_as, cast, close_location, run_tasks):
    made = cast.instance("outsider")
    close_location()
    assert api_as("outsider", "GET", f"/api/instance/{made.id}").status_code == 200
    deploy = api_as("outsider", "POST", f"/api/instance/{made.id}/deploy", json={"image_id": cast.image.id})
    assert deploy.status_code == 200
    run_tasks()
    assert api_as("outsider", "POST", f"/api/instance/{made.id}/power/restart").status_code == 200


def test_grants_are_listed_searched_and_taken_back(api_as, cast, close_location, path, queries):
    close_location(cast.owner.id, cast.outsider.id)
    rows = api_as("admin", "GET", f"{path}/grants").json["data"]
    assert [row["email"] for row in rows] == ["outsider@example.com", "owner@example.com"]
    assert [row["account_id"] for row in api_as("admin", "GET", f"{path}/grants?search=out").json["data"]] == [
        cast.outsider.id
    ]
    one = f"{V1}/user/{cast.outsider.id}/hypervisor-groups"
    (group,) = api_as("admin", "GET", one).json["data"]
    assert (group["id"], group["public"], group["granted"]) == (cast.location.id, False, True)
    for _ in range(2):
        assert api_as("admin", "DELETE", f"{one}/{cast.location.id}").status_code == 200
        assert api_as("admin", "GET", one).json["data"] == []
    for _ in range(2):
        assert api_as("admin", "PUT", f"{one}/{cast.location.id}").status_code == 200
    assert session.query(LocationGrant).count() == 2
    assert visible_locations(api_as, "outsider") == ["lab"]


def test_the_log_names_the_group_and_whose_deed_it_was(api_as, cast):
    api_as("admin", "PUT", f"{V1}/user/{cast.outsider.id}/hypervisor-groups/{cast.location.id}")
    entry = session.query(AuditEntry).one()
    assert (entry.object_type, entry.object_id, entry.changes["fields"]) == (
        "hypervisor_group",
        cast.location.id,
        ["grants"],
    )


def test_members_of_teams_use_what_their_owner_may(api_as, cast, close_location, path):
    refused = api_as("admin", "PUT", f"{V1}/user/{cast.member.id}/hypervisor-groups/{cast.location.id}")
    assert (refused.status_code, refused.json["errors"].keys()) == (422, {"account_id"})
    body = {"public": False, "account_ids": [cast.member.id]}
    assert api_as("admin", "PUT", f"{path}/access", json=body).json["errors"].keys() == {"account_ids"}
    found = {row["email"] for row in api_as("admin", "GET", f"{V1}/grantable-account-owners").json["data"]}
    assert found == {"owner@example.com", "outsider@example.com"}
    assert len(api_as("admin", "GET", f"{V1}/grantable-account-owners?search=outs").json["data"]) == 1


def test_how_many_a_change_would_touch(api_as, cast, close_location, path):
    cast.instance("outsider"), cast.instance("outsider")
    cast.instance("owner")
    count = lambda **body: api_as("admin", "POST", f"{path}/affected-count", json=body).json["data"]  # noqa: E731
    assert count(public=False) == {"accounts": 2, "accounts_with_instances": 2, "instances": 3}
    assert count(public=False, account_ids=[cast.owner.id]) == {
        "accounts": 1,
        "accounts_with_instances": 1,
        "instances": 2,
    }
    assert count(public=True) == {"accounts": 0, "accounts_with_instances": 0, "instances": 0}
    close_location(cast.outsider.id)
    assert count(public=False, account_ids=[]) == {"accounts": 1, "accounts_with_instances": 1, "instances": 2}
    assert session.get(HypervisorGroup, cast.location.id).public is False


def test_ids_that_are_not_there(api_as, cast, path):
    unknown = "0199c0a8-0000-7000-8000-000000000000"
    body = {"public": False, "account_ids": [unknown]}
    assert api_as("admin", "PUT", f"{path}/access", json=body).json["errors"].keys() == {"account_ids"}
    for method in ("PUT", "DELETE"):
        for account, group in ((unknown, cast.location.id), (cast.owner.id, unknown)):
            assert api_as("admin", method, f"{V1}/user/{account}/hypervisor-groups/{group}").status_code == 404
    assert session.get(HypervisorGroup, cast.location.id).public is True


def test_the_list_of_grants_costs_the_same_for_many(api_as, cast, close_location, path, queries):
    close_location(cast.owner.id)
    api_as("admin", "GET", f"{path}/grants")
    queries.clear()
    api_as("admin", "GET", f"{path}/grants")
    few = len(queries)
    close_location(cast.owner.id, cast.outsider.id)
    queries.clear()
    assert len(api_as("admin", "GET", f"{path}/grants").json["data"]) == 2
    assert len(queries) == few
