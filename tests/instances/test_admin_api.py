"""Instances in the operators' API."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor
from panel.schemas.constants import KEYMAPS

WRITABLE_FIELD_VALUES = {
    "display_name": "Shop",
    "hostname": "shop.example",
    "notes": "n",
    "boot": "network",
    "enable_smtp": False,
    "vnc_keymap": "de",
    "protection_enabled": True,
}


@pytest.fixture
def instance_path(cast):
    return f"/api/v1/instance/{cast.instance().id}"


def test_patch_changes_each_writable_field(api_as, instance_path):
    """INS-07, INS-37, INS-40"""
    for field, value in WRITABLE_FIELD_VALUES.items():
        answer = api_as("admin", "PATCH", instance_path, json={field: value})
        assert answer.status_code == 200
        assert answer.json.keys() == {"success", "message", "data"}
        assert answer.json["data"]["state"] == "pending"
        assert api_as("admin", "GET", instance_path).json["data"][field] == value


def test_patch_with_unknown_field_changes_nothing(api_as, instance_path):
    """INS-38, INS-39"""
    answer = api_as("admin", "PATCH", instance_path, json={"notes": "n", "name": "x"})
    assert answer.status_code == 422
    assert all(field in answer.text for field in WRITABLE_FIELD_VALUES)
    assert api_as("admin", "GET", instance_path).json["data"]["notes"] is None


def test_vnc_keymap_accepts_33_values(api_as, instance_path):
    """INS-18"""
    accepted = [
        k for k in KEYMAPS if api_as("admin", "PATCH", instance_path, json={"vnc_keymap": k}).status_code == 200
    ]
    assert len(accepted) == 33
    assert {"en-us", "de", "fr"} <= set(accepted)


def test_admin_renames_instance(api_as, instance_path):
    """INS-03, INS-41 to INS-43"""
    before = api_as("admin", "GET", instance_path).json["data"]["name"]
    for body, label in (
        ({"display_name": "A"}, "A"),
        ({"name": "Lab"}, "Lab"),
        ({"name": "n", "display_name": "B"}, "B"),
    ):
        data = api_as("admin", "PUT", f"{instance_path}/modify/name", json=body).json["data"]
        assert (data["display_name"], data["name"]) == (label, before)
    refused = api_as("admin", "PUT", f"{instance_path}/modify/name", json={})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["display_name"])


def test_admin_changes_hostname(api_as, instance_path):
    """INS-44, INS-45, ERR-05"""
    assert (
        api_as("admin", "PUT", f"{instance_path}/modify/hostname", json={"hostname": "a.b"}).json["data"]["hostname"]
        == "a.b"
    )
    assert api_as("admin", "PUT", f"{instance_path}/modify/hostname", json={}).status_code == 422
    wrong = api_as("admin", "PUT", f"{instance_path}/modify/hostname", json={"hostname": "-a"})
    assert "valid hostname" in wrong.json["message"]


@pytest.fixture
def create_body(cast):
    return {"user_id": cast.owner.id, "location_id": cast.location.id, "plan_id": cast.plan.id}


def test_admin_creates_instance_for_user(api_as, cast, create_body):
    """INS-76, INS-78"""
    instance = api_as("admin", "POST", "/api/v1/instances", json={**create_body, "hypervisor_id": cast.node.id}).json[
        "data"
    ]
    assert (instance["account_id"], instance["hypervisor_id"], instance["enable_vnc"]) == (
        cast.owner.id,
        cast.node.id,
        False,
    )
    assert api_as("admin", "POST", "/api/v1/instances", json={**create_body, "enable_vnc": True}).json["data"][
        "enable_vnc"
    ]
    own_instances = api_as("admin", "GET", f"/api/v1/instances/user/{cast.owner.id}").json
    assert own_instances["meta"]["total"] == 2
    assert api_as("admin", "GET", f"/api/v1/instances/user/{cast.outsider.id}").json["data"] == []
    assert api_as("owner", "GET", f"/api/instance/{instance['id']}").status_code == 200


@pytest.mark.parametrize("value", ["true", "false", 1, 0, None])
def test_enable_vnc_accepts_only_booleans(api_as, create_body, value):
    """INS-77"""
    answer = api_as("admin", "POST", "/api/v1/instances", json={**create_body, "enable_vnc": value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["enable_vnc"])


@pytest.mark.parametrize("field", ["user_id", "hypervisor_id", "location_id", "plan_id"])
def test_create_with_unknown_id_is_refused(api_as, create_body, field):
    answer = api_as("admin", "POST", "/api/v1/instances", json={**create_body, field: "nosuch"})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


@pytest.mark.parametrize(
    "changes", [{"status": "down"}, {"maintenance": True}, {"locked": True}, {"deploy_enabled": False}]
)
def test_create_on_unschedulable_hypervisor_names_field(api_as, cast, create_body, changes):
    """OP-18"""
    for field, value in changes.items():
        setattr(session.get(Hypervisor, cast.node.id), field, value)
    session.commit()
    answer = api_as("admin", "POST", "/api/v1/instances", json={**create_body, "hypervisor_id": cast.node.id})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["hypervisor_id"])


def test_power_answer_has_only_success_and_message(api_as, cast, instance_path, run_tasks):
    """ENV-30, INS-61"""
    deploy = api_as("admin", "POST", f"{instance_path}/deploy", json={"image_id": cast.image.id})
    assert deploy.json["data"].keys() == {"task_id", "password"}
    run_tasks()
    for action in ("stop", "start", "restart"):
        answer = api_as("admin", "POST", f"{instance_path}/power/{action}")
        assert answer.json.keys() == {"success", "message"}
        run_tasks()
    assert api_as("admin", "GET", instance_path).json["data"]["state"] == "running"


def test_operator_destroys_suspended_instance(api_as, cast, instance_path, run_tasks):
    from panel.models import Instance

    session.get(Instance, instance_path.rsplit("/", 1)[1]).suspended_reason = "admin"
    session.commit()
    assert api_as("admin", "DELETE", instance_path).json["data"].keys() == {"task_id"}
    run_tasks()
    assert api_as("admin", "GET", instance_path).status_code == 404
