"""A suspended instance is not changed by its owner, whatever the operation. E6."""

import re

import pytest

from panel.core.db import session
from panel.models import Instance
from panel.services import instances
from tests.test_architecture import operations

UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"

ALLOWED = {
    "user.instance.delete": "refused by the service, unless the owner suspended it",
    "user.instance.self_provisioned_delete": "the same",
    "user.instance.ssh_session_close": "ends access, and changes nothing of the machine",
}

BODIES = {
    "update": {"display_name": "Other"},
    "boot_order": {"boot": "disk"},
    "change_plan": {"plan_id": UNKNOWN},
    "deploy": {"image_id": UNKNOWN},
    "docker_deploy": {"app_slug": "nginx"},
    "docker_deploy_compose": {"app_name": "Shop", "compose_url": "https://example.com/compose.yaml"},
    "set_ip_rdns": {"rdns": "web.example.com"},
    "change_ips": {"action": "add"},
    "iso_action": {"iso_id": UNKNOWN},
    "iso_mount": {"iso_id": UNKNOWN},
    "rescue": {"enable": True},
    "self_deploy": {"image_id": UNKNOWN, "hostname": "web.example.com"},
    "snapshot_create": {"snapname": "one"},
    "snapshot_delete": {"snapname": "one"},
    "snapshot_rollback": {"snapname": "one"},
    "push_ssh_keys": {"ssh_keys": [UNKNOWN]},
    "tags.set": {"tags": ["web"]},
    "update_name": {"name": "Other"},
}
"""What the operations need to be sent."""


@pytest.fixture
def suspended(as_, cast, work):
    made = cast.instance()
    as_("owner", "POST", f"/api/instance/{made.id}/deploy", json={"image_id": cast.image.id})
    work()
    instance = session.get(Instance, made.id)
    instances.suspend(instance, reason="admin", actor="admin@example.com")
    session.commit()
    work()
    return instance


def writes(app):
    for method, path, operation in operations(app, "USER"):
        if method != "GET" and "{instance_id}" in path:
            yield operation["operationId"], method, path


def test_every_operation_that_writes_is_refused(as_, app, suspended, unlimited):
    """E6, generated from the route rows: an operation that is added is tried, too."""
    found = list(writes(app))
    assert len(found) > 40
    for operation, method, path in found:
        address = re.sub(r"{\w+}", UNKNOWN, path.replace("{instance_id}", suspended.id))
        body = BODIES.get(operation.removeprefix("user.instance."), {})
        answer = as_("owner", method, address, json=body)
        if operation not in ALLOWED:
            assert (answer.status_code, answer.json.get("reason")) == (409, "suspended"), (operation, answer.json)
    assert as_("owner", "DELETE", f"/api/instance/{suspended.id}/ssh-session").status_code == 200
    path = f"/api/cloud-service/instances/{suspended.id}"
    assert as_("owner", "DELETE", path).json["reason"] == "suspended"
    suspended.suspended_reason = "user"
    session.commit()
    assert as_("owner", "DELETE", path).status_code == 200


def test_what_names_it_elsewhere_is_refused(as_, suspended):
    """E6: groups of firewall rules, and one action on many."""
    group = as_("owner", "POST", "/api/security-groups", json={"name": "web"}).json["security_group"]["id"]
    for way in ("attach-instances", "detach-instances"):
        body = {"instance_ids": [suspended.id]}
        answer = as_("owner", "POST", f"/api/security-group/{group}/{way}", json=body)
        assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    for action in ("start", "poweroff", "destroy", "add_tag"):
        body = {"ids": [suspended.id], "action": action, **({"tag": "web"} if action == "add_tag" else {})}
        answer = as_("owner", "POST", "/api/instances/bulk", json=body)
        assert [row["reason"] for row in answer.json["data"]["results"]] == ["suspended"]


def test_operators_change_it(as_, suspended):
    for switch in ("vnc/disable", "tpm/enable"):
        assert as_("admin", "POST", f"/api/v1/instance/{suspended.id}/{switch}").status_code == 200


def test_the_pages_refuse_the_same(browse, suspended):
    """E6"""
    browser = browse("owner")
    page = f"/instances/{suspended.id}"
    for path in ("vnc/off", "tpm/on", "tags", "reset-password", "power/start"):
        answer = browser.post(f"{page}/{path}")
        assert answer.status_code in (404, 409), path
    assert browser.get(page).status_code == 200
    assert session.get(Instance, suspended.id).enable_vnc
