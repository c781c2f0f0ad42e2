"""Hypervisor groups that are not for everybody: who may choose them, who sees them, and what goes on."""

import pytest

from panel.core.db import session
from panel.models import AuditEntry, GroupGrant, HypervisorGroup
from panel.services import settings, volume_plans

V1 = "/api/v1"
UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture
def path(cast):
    return f"{V1}/hypervisor/group/{cast.location.id}"


@pytest.fixture
def close(as_, path):
    def closed(*account_ids, public=False):
        body = {"public": public, "account_ids": list(account_ids)}
        answer = as_("admin", "PUT", f"{path}/access", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json["data"]

    return closed


def order(as_, cast, who):
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    return as_(who, "POST", "/api/cloud-service/instances", json=body)


def seen(as_, who):
    return [each["name"] for each in as_(who, "GET", "/api/cloud-service/locations").json["data"]]


def test_every_customer_may_choose_a_group_that_nobody_closed(as_, cast, path):
    assert as_("admin", "GET", path).json["data"]["public"] is True
    assert seen(as_, "outsider") == ["lab"]


def test_a_closed_group_is_an_unknown_location(as_, cast, close):
    """The same answers as for an id that does not exist: nothing tells that there is such a place."""
    assert close(cast.owner.id)["grants"] == 1
    assert (seen(as_, "owner"), seen(as_, "member"), seen(as_, "outsider")) == (["lab"], ["lab"], [])
    place = f"/api/cloud-service/location/{cast.location.id}/plan-groups"
    unknown = f"/api/cloud-service/location/{UNKNOWN}/plan-groups"
    refused, missing = as_("outsider", "GET", place), as_("outsider", "GET", unknown)
    assert (refused.status_code, refused.json) == (404, missing.json)
    assert as_("owner", "GET", place).status_code == 200
    refused = order(as_, cast, "outsider")
    other = {"location_id": UNKNOWN, "plan_id": cast.plan.id}
    assert refused.status_code == 422
    assert refused.json == as_("outsider", "POST", "/api/cloud-service/instances", json=other).json
    assert order(as_, cast, "owner").status_code == 200
    assert order(as_, cast, "member").status_code == 200


def test_self_provisioning_tells_no_more_of_it(as_, cast, close):
    """Not even whether a plan is there."""
    settings.update({"billing_enabled": True})
    close(cast.owner.id)
    order = {"location_id": cast.location.id, "plan_id": UNKNOWN}
    told = [
        as_("outsider", "POST", "/api/self-provisioning/instances", json={**order, "location_id": place})
        for place in (cast.location.id, UNKNOWN)
    ]
    assert (told[0].status_code, told[0].json) == (422, told[1].json)
    assert list(told[0].json["errors"]) == ["location_id"]


def test_volumes_too(as_, cast, close):
    settings.update({"billing_enabled": True})
    group = volume_plans.create_group(name="ssd")
    plan = volume_plans.create(group, name="small", size=1, price=1)
    session.commit()
    close(cast.owner.id)
    body = {"name": "data", "volume_plan_id": plan.id, "hypervisor_group_id": cast.location.id}
    for who, status in (("outsider", 422), ("owner", 200)):
        answer = as_(who, "POST", "/api/storage/volumes", json=body)
        assert answer.status_code == status, answer.text
        choices = as_(who, "GET", "/api/storage/volumes/create").json["hypervisor_groups"]
        assert len(choices) == (status == 200)
    assert answer.json["success"]


def test_an_operator_who_creates_for_a_customer_minds_the_grant_unless_a_hypervisor_is_named(as_, cast, close):
    close()
    body = {"user_id": cast.outsider.id, "location_id": cast.location.id, "plan_id": cast.plan.id}
    assert as_("admin", "POST", f"{V1}/instances", json=body).json["errors"].keys() == {"location_id"}
    assert as_("admin", "POST", f"{V1}/instances", json={**body, "hypervisor_id": cast.node.id}).status_code in (
        200,
        201,
    )


def test_what_exists_goes_on(as_, cast, close, work):
    made = cast.instance("outsider")
    close()
    assert as_("outsider", "GET", f"/api/instance/{made.id}").status_code == 200
    deploy = as_("outsider", "POST", f"/api/instance/{made.id}/deploy", json={"image_id": cast.image.id})
    assert deploy.status_code == 200
    work()
    assert as_("outsider", "POST", f"/api/instance/{made.id}/power/restart").status_code == 200


def test_grants_are_listed_searched_and_taken_back(as_, cast, close, path, queries):
    close(cast.owner.id, cast.outsider.id)
    rows = as_("admin", "GET", f"{path}/grants").json["data"]
    assert [row["email"] for row in rows] == ["outsider@example.com", "owner@example.com"]
    assert [row["account_id"] for row in as_("admin", "GET", f"{path}/grants?search=out").json["data"]] == [
        cast.outsider.id
    ]
    one = f"{V1}/user/{cast.outsider.id}/hypervisor-groups"
    (group,) = as_("admin", "GET", one).json["data"]
    assert (group["id"], group["public"], group["granted"]) == (cast.location.id, False, True)
    for _ in range(2):
        assert as_("admin", "DELETE", f"{one}/{cast.location.id}").status_code == 200
        assert as_("admin", "GET", one).json["data"] == []
    for _ in range(2):
        assert as_("admin", "PUT", f"{one}/{cast.location.id}").status_code == 200
    assert session.query(GroupGrant).count() == 2
    assert seen(as_, "outsider") == ["lab"]


def test_the_log_names_the_group_and_whose_deed_it_was(as_, cast):
    as_("admin", "PUT", f"{V1}/user/{cast.outsider.id}/hypervisor-groups/{cast.location.id}")
    entry = session.query(AuditEntry).one()
    assert (entry.object_type, entry.object_id, entry.changes["fields"]) == (
        "hypervisor_group",
        cast.location.id,
        ["grants"],
    )


def test_members_of_teams_use_what_their_owner_may(as_, cast, close, path):
    refused = as_("admin", "PUT", f"{V1}/user/{cast.member.id}/hypervisor-groups/{cast.location.id}")
    assert (refused.status_code, refused.json["errors"].keys()) == (422, {"account_id"})
    body = {"public": False, "account_ids": [cast.member.id]}
    assert as_("admin", "PUT", f"{path}/access", json=body).json["errors"].keys() == {"account_ids"}
    found = {row["email"] for row in as_("admin", "GET", f"{V1}/grantable-account-owners").json["data"]}
    assert found == {"owner@example.com", "outsider@example.com"}
    assert len(as_("admin", "GET", f"{V1}/grantable-account-owners?search=outs").json["data"]) == 1


def test_how_many_a_change_would_touch(as_, cast, close, path):
    cast.instance("outsider"), cast.instance("outsider")
    cast.instance("owner")
    count = lambda **body: as_("admin", "POST", f"{path}/affected-count", json=body).json["data"]  # noqa: E731
    assert count(public=False) == {"accounts": 2, "accounts_with_instances": 2, "instances": 3}
    assert count(public=False, account_ids=[cast.owner.id]) == {
        "accounts": 1,
        "accounts_with_instances": 1,
        "instances": 2,
    }
    assert count(public=True) == {"accounts": 0, "accounts_with_instances": 0, "instances": 0}
    close(cast.outsider.id)
    assert count(public=False, account_ids=[]) == {"accounts": 1, "accounts_with_instances": 1, "instances": 2}
    assert session.get(HypervisorGroup, cast.location.id).public is False


def test_ids_that_are_not_there(as_, cast, path):
    unknown = "0199c0a8-0000-7000-8000-000000000000"
    body = {"public": False, "account_ids": [unknown]}
    assert as_("admin", "PUT", f"{path}/access", json=body).json["errors"].keys() == {"account_ids"}
    for method in ("PUT", "DELETE"):
        for account, group in ((unknown, cast.location.id), (cast.owner.id, unknown)):
            assert as_("admin", method, f"{V1}/user/{account}/hypervisor-groups/{group}").status_code == 404
    assert session.get(HypervisorGroup, cast.location.id).public is True


def test_the_list_of_grants_costs_the_same_for_many(as_, cast, close, path, queries):
    close(cast.owner.id)
    as_("admin", "GET", f"{path}/grants")
    queries.clear()
    as_("admin", "GET", f"{path}/grants")
    few = len(queries)
    close(cast.owner.id, cast.outsider.id)
    queries.clear()
    assert len(as_("admin", "GET", f"{path}/grants").json["data"]) == 2
    assert len(queries) == few
