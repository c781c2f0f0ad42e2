"""Instances by the operators' API."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor
from panel.schemas.constants import KEYMAPS

WRITABLE = {
    "display_name": "Shop",
    "hostname": "shop.example",
    "notes": "n",
    "boot": "network",
    "enable_smtp": False,
    "vnc_keymap": "de",
    "protection_enabled": True,
}


@pytest.fixture
def path(cast):
    return f"/api/v1/instance/{cast.instance().id}"


def test_each_writable_field(api_as, path):
    """INS-07, INS-37, INS-40"""
    for field, value in WRITABLE.items():
        answer = api_as("admin", "PATCH", path, json={field: value})
        assert answer.status_code == 200
        assert answer.json.keys() == {"success", "message", "data"}
        assert answer.json["data"]["state"] == "pending"
        assert api_as("admin", "GET", path).json["data"][field] == value


def test_other_fields_are_refused_and_nothing_is_changed(api_as, path):
    """INS-38, INS-39"""
    answer = api_as("admin", "PATCH", path, json={"notes": "n", "name": "x"})
    assert answer.status_code == 422
    assert all(field in answer.text for field in WRITABLE)
    assert api_as("admin", "GET", path).json["data"]["notes"] is None


def test_33_keymaps(api_as, path):
    """INS-18"""
    accepted = [k for k in KEYMAPS if api_as("admin", "PATCH", path, json={"vnc_keymap": k}).status_code == 200]
    assert len(accepted) == 33
    assert {"en-us", "de", "fr"} <= set(accepted)


def test_admin_renames_instance(api_as, path):
    """INS-03, INS-41 to INS-43"""
    before = api_as("admin", "GET", path).json["data"]["name"]
    for body, label in (
        ({"display_name": "A"}, "A"),
        ({"name": "Lab"}, "Lab"),
        ({"name": "n", "display_name": "B"}, "B"),
    ):
        data = api_as("admin", "PUT", f"{path}/modify/name", json=body).json["data"]
        assert (data["display_name"], data["name"]) == (label, before)
    refused = api_as("admin", "PUT", f"{path}/modify/name", json={})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["display_name"])


def test_admin_changes_hostname(api_as, path):
    """INS-44, INS-45, ERR-05"""
    assert api_as("admin", "PUT", f"{path}/modify/hostname", json={"hostname": "a.b"}).json["data"]["hostname"] == "a.b"
    assert api_as("admin", "PUT", f"{path}/modify/hostname", json={}).status_code == 422
    wrong = api_as("admin", "PUT", f"{path}/modify/hostname", json={"hostname": "-a"})
    assert "valid hostname" in wrong.json["message"]


@pytest.fixture
def wanted(cast):
    return {"user_id": cast.owner.id, "location_id": cast.location.id, "plan_id": cast.plan.id}


def test_create_for_a_user(api_as, cast, wanted):
    """INS-76, INS-78"""
    made = api_as("admin", "POST", "/api/v1/instances", json={**wanted, "hypervisor_id": cast.node.id}).json["data"]
    assert (made["account_id"], made["hypervisor_id"], made["enable_vnc"]) == (cast.owner.id, cast.node.id, False)
    assert api_as("admin", "POST", "/api/v1/instances", json={**wanted, "enable_vnc": True}).json["data"]["enable_vnc"]
    mine = api_as("admin", "GET", f"/api/v1/instances/user/{cast.owner.id}").json
    assert mine["meta"]["total"] == 2
    assert api_as("admin", "GET", f"/api/v1/instances/user/{cast.outsider.id}").json["data"] == []
    assert api_as("owner", "GET", f"/api/instance/{made['id']}").status_code == 200


@pytest.mark.parametrize("value", ["true", "false", 1, 0, None])
def test_enable_vnc_is_a_boolean(api_as, wanted, value):
    """INS-77"""
    answer = api_as("admin", "POST", "/api/v1/instances", json={**wanted, "enable_vnc": value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["enable_vnc"])


@pytest.mark.parametrize("field", ["user_id", "hypervisor_id", "location_id", "plan_id"])
def test_ids_that_name_nothing(api_as, wanted, field):
    answer = api_as("admin", "POST", "/api/v1/instances", json={**wanted, field: "nosuch"})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


@pytest.mark.parametrize(
    "closed", [{"status": "down"}, {"maintenance": True}, {"locked": True}, {"deploy_enabled": False}]
)
def test_a_closed_node_is_refused_under_its_field(api_as, cast, wanted, closed):
    """OP-18"""
    for field, value in closed.items():
        setattr(session.get(Hypervisor, cast.node.id), field, value)
    session.commit()
    answer = api_as("admin", "POST", "/api/v1/instances", json={**wanted, "hypervisor_id": cast.node.id})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["hypervisor_id"])


def test_power_answers_only_success_and_message(api_as, cast, path, run_tasks):
    """ENV-30, INS-61"""
    deploy = api_as("admin", "POST", f"{path}/deploy", json={"image_id": cast.image.id})
    assert deploy.json["data"].keys() == {"task_id", "password"}
    run_tasks()
    for action in ("stop", "start", "restart"):
        answer = api_as("admin", "POST", f"{path}/power/{action}")
        assert answer.json.keys() == {"success", "message"}
        run_tasks()
    assert api_as("admin", "GET", path).json["data"]["state"] == "running"


def test_operators_may_destroy_what_is_suspended(api_as, cast, path, run_tasks):
    from panel.models import Instance

    session.get(Instance, path.rsplit("/", 1)[1]).suspended_reason = "admin"
    session.commit()
    assert api_as("admin", "DELETE", path).json["data"].keys() == {"task_id"}
    run_tasks()
    assert api_as("admin", "GET", path).status_code == 404
