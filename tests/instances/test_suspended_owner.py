"""The owner cannot change a suspended instance by any operation. E6."""

import re

import pytest

from panel.core.db import session
from panel.models import Instance
from panel.services import instances
from tests.support.cast import UNKNOWN_ID
from tests.support.operations import find_operations

ALLOWED_OPERATIONS = {
    "user.instance.delete": "refused by the service, unless the owner suspended it",
    "user.instance.self_provisioned_delete": "the same",
    "user.instance.ssh_session_close": "ends access, and changes nothing of the machine",
    "user.instance.close_backup_files": "the same",
    "user.instance.create_backup": "reads the machine, and changes nothing of it",
    "user.instance.protect_backup": "about a backup, which outlives the instance",
    "user.instance.delete_backup": "the same",
    "user.instance.destroy_backups": "the same",
}

REQUEST_BODIES = {
    "update": {"display_name": "Other"},
    "boot_order": {"boot": "disk"},
    "change_plan": {"plan_id": UNKNOWN_ID},
    "deploy": {"image_id": UNKNOWN_ID},
    "docker_deploy": {"app_slug": "nginx"},
    "docker_deploy_compose": {"app_name": "Shop", "compose_url": "https://example.com/compose.yaml"},
    "set_ip_rdns": {"rdns": "web.example.com"},
    "change_ips": {"action": "add"},
    "iso_action": {"iso_id": UNKNOWN_ID},
    "iso_mount": {"iso_id": UNKNOWN_ID},
    "rescue": {"enable": True},
    "self_deploy": {"image_id": UNKNOWN_ID, "hostname": "web.example.com"},
    "snapshot_create": {"snapname": "one"},
    "snapshot_delete": {"snapname": "one"},
    "snapshot_rollback": {"snapname": "one"},
    "push_ssh_keys": {"ssh_keys": [UNKNOWN_ID]},
    "tags.set": {"tags": ["web"]},
    "update_name": {"name": "Other"},
}
"""The bodies of operations that require one."""


@pytest.fixture
def suspended_instance(api_as, cast, run_tasks):
    created_instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{created_instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    instance = session.get(Instance, created_instance.id)
    instances.suspend(instance, reason="admin", actor="admin@example.com")
    session.commit()
    run_tasks()
    return instance


def find_write_operations(app):
    for method, path, operation in find_operations(app, "USER"):
        if method != "GET" and "{instance_id}" in path:
            yield operation["operationId"], method, path


def test_every_write_operation_is_refused(api_as, app, suspended_instance, unlimited_rates):
    """E6: generated from the routes, so new operations are tested, too."""
    write_operations = list(find_write_operations(app))
    assert len(write_operations) > 40
    for operation, method, path in write_operations:
        address = re.sub(r"{\w+}", UNKNOWN_ID, path.replace("{instance_id}", suspended_instance.id))
        body = REQUEST_BODIES.get(operation.removeprefix("user.instance."), {})
        answer = api_as("owner", method, address, json=body)
        if operation not in ALLOWED_OPERATIONS:
            assert (answer.status_code, answer.json.get("reason")) == (409, "suspended"), (operation, answer.json)
    assert api_as("owner", "DELETE", f"/api/instance/{suspended_instance.id}/ssh-session").status_code == 200
    path = f"/api/cloud-service/instances/{suspended_instance.id}"
    assert api_as("owner", "DELETE", path).json["reason"] == "suspended"
    suspended_instance.suspended_reason = "user"
    session.commit()
    assert api_as("owner", "DELETE", path).status_code == 200


def test_security_group_and_bulk_operations_are_refused(api_as, suspended_instance):
    """E6: operations of other resources that name the instance."""
    group = api_as("owner", "POST", "/api/security-groups", json={"name": "web"}).json["security_group"]["id"]
    for way in ("attach-instances", "detach-instances"):
        body = {"instance_ids": [suspended_instance.id]}
        answer = api_as("owner", "POST", f"/api/security-group/{group}/{way}", json=body)
        assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    for action in ("start", "poweroff", "destroy", "add_tag"):
        body = {"ids": [suspended_instance.id], "action": action, **({"tag": "web"} if action == "add_tag" else {})}
        answer = api_as("owner", "POST", "/api/instances/bulk", json=body)
        assert [row["reason"] for row in answer.json["data"]["results"]] == ["suspended"]


def test_operator_changes_suspended_instance(api_as, suspended_instance):
    for switch in ("vnc/disable", "tpm/enable"):
        assert api_as("admin", "POST", f"/api/v1/instance/{suspended_instance.id}/{switch}").status_code == 200


def test_pages_refuse_changes_of_suspended_instance(browser_as, suspended_instance):
    """E6"""
    browser = browser_as("owner")
    page = f"/instances/{suspended_instance.id}"
    for path in ("vnc/off", "tpm/on", "tags", "reset-password", "power/start"):
        answer = browser.post(f"{page}/{path}")
        assert answer.status_code in (404, 409), path
    assert browser.get(page).status_code == 200
    assert session.get(Instance, suspended_instance.id).enable_vnc
