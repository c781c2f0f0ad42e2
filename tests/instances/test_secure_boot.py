"""Secure boot: in both APIs, on the pages, on the node, and what excludes it."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, Rescue
from panel.services import instances
from panel.services.migrations import target_selection
from worker.sync import node_sync
from worker.tasks.machine_spec import build_spec

API_PREFIXES = (("owner", "/api"), ("admin", "/api/v1"))


@pytest.fixture
def stopped_instance(cast, node, run_tasks):
    """A stopped instance of an image whose boot loader is signed."""
    cast.image.secure_boot = cast.node.secure_boot = True
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    instances.run_power_action(instance, "poweroff", actor="test")
    session.commit()
    run_tasks()
    assert instance.state == "stopped"
    return instance


@pytest.fixture
def secure_boot_instance(stopped_instance, run_tasks):
    instances.set_secure_boot(stopped_instance, True, actor="test")
    session.commit()
    run_tasks()
    return stopped_instance


def get_definition(node, instance):
    [row] = node.state.rows("SELECT definition FROM machines WHERE id = ?", instance.id)
    return row["definition"]


def get_status_and_reason(answer):
    return answer.status_code, answer.json["reason"]


def switch_secure_boot(as_, instance, caller="owner", prefix="/api", action="enable"):
    return as_(caller, "POST", f"{prefix}/instance/{instance.id}/secure-boot/{action}")


@pytest.mark.parametrize(("caller", "prefix"), API_PREFIXES)
def test_secure_boot_is_switched_on_and_off(api_as, stopped_instance, run_tasks, node, caller, prefix):
    for action, on in (("enable", True), ("enable", True), ("disable", False)):
        answer = switch_secure_boot(api_as, stopped_instance, caller, prefix, action)
        assert answer.status_code == 200
        assert (answer.json.get("data") or answer.json)["task_id"]
        run_tasks()
        assert api_as("owner", "GET", f"/api/instance/{stopped_instance.id}").json["secure_boot_enabled"] is on
        assert (b'"secure_boot":true' in bytes(get_definition(node, stopped_instance))) is on


@pytest.mark.parametrize(("caller", "prefix"), API_PREFIXES)
def test_secure_boot_of_running_instance_is_refused(api_as, stopped_instance, run_tasks, caller, prefix):
    instances.run_power_action(stopped_instance, "start", actor="test")
    session.commit()
    run_tasks()
    assert get_status_and_reason(switch_secure_boot(api_as, stopped_instance, caller, prefix)) == (409, "not_stopped")
    stopped_instance.secure_boot_enabled = True
    session.commit()
    assert get_status_and_reason(switch_secure_boot(api_as, stopped_instance, caller, prefix, "disable")) == (
        409,
        "not_stopped",
    )


@pytest.mark.parametrize(("caller", "prefix"), API_PREFIXES)
def test_secure_boot_on_unsupported_node_is_refused(api_as, cast, stopped_instance, caller, prefix):
    """VER-08"""
    cast.node.secure_boot = False
    session.commit()
    assert get_status_and_reason(switch_secure_boot(api_as, stopped_instance, caller, prefix)) == (
        409,
        "secure_boot_unsupported_on_node",
    )
    assert stopped_instance.secure_boot_enabled is False


def test_secure_boot_of_unsigned_image_is_refused(api_as, cast, stopped_instance):
    cast.image.secure_boot = False
    session.commit()
    assert get_status_and_reason(switch_secure_boot(api_as, stopped_instance)) == (
        409,
        "secure_boot_unsupported_by_image",
    )


def test_reinstall_with_secure_boot_refuses_unsigned_image(api_as, cast, secure_boot_instance, run_tasks):
    cast.image.secure_boot = False
    session.commit()
    answer = api_as(
        "owner", "POST", f"/api/instance/{secure_boot_instance.id}/reinstall", json={"image_id": cast.image.id}
    )
    assert answer.status_code == 422
    assert "secure boot" in answer.json["errors"]["image_id"][0]


def test_secure_boot_requires_memory_for_uefi(api_as, stopped_instance):
    stopped_instance.ram = 256
    session.commit()
    answer = switch_secure_boot(api_as, stopped_instance)
    assert get_status_and_reason(answer) == (409, "secure_boot_unsupported_by_image")
    assert "384 MiB" in answer.json["message"]


def test_snapshots_and_secure_boot_exclude_each_other(api_as, stopped_instance, run_tasks):
    path = f"/api/instance/{stopped_instance.id}/snapshot"
    assert api_as("owner", "POST", path, json={"snapname": "before"}).status_code in (200, 201)
    run_tasks()
    assert get_status_and_reason(switch_secure_boot(api_as, stopped_instance)) == (409, "has_snapshots")
    stopped_instance.secure_boot_enabled = True
    session.commit()
    assert get_status_and_reason(api_as("owner", "POST", path, json={"snapname": "after"})) == (
        409,
        "secure_boot_enabled",
    )


def test_rescue_system_starts_without_secure_boot(secure_boot_instance):
    assert build_spec(secure_boot_instance).secure_boot is True
    session.add(Rescue(instance_id=secure_boot_instance.id, since=clock.now(), password="secret"))
    session.flush()
    assert build_spec(secure_boot_instance).secure_boot is False


def test_migration_target_must_support_secure_boot_and_tpm(cast, secure_boot_instance):
    cast.node.tpm = True
    facts = {"group_id": cast.node.group_id, "driver": cast.node.driver, "uri": cast.node.uri}
    other = Hypervisor(name="other", **facts)
    session.add(other)
    session.flush()
    assert "secure boot" in target_selection.target_error(secure_boot_instance, other)
    other.secure_boot = True
    assert target_selection.target_error(secure_boot_instance, other) is None
    secure_boot_instance.tpm_enabled = True
    assert "TPM" in target_selection.target_error(secure_boot_instance, other)


def test_secure_boot_requires_permission(api_as, stopped_instance):
    assert switch_secure_boot(api_as, stopped_instance, "outsider").status_code == 404
    assert switch_secure_boot(api_as, stopped_instance, "viewer").status_code == 403
    assert switch_secure_boot(api_as, stopped_instance, action="toggle").status_code == 404


def test_secure_boot_capability_is_probed_from_node(api_as, cast, node, monkeypatch):
    for number, is_supported in ((0, False), (1, True)):
        monkeypatch.setattr(node, "options", type(node.options)(secure_boot=number))
        node_sync.probe(cast.node.id)
        session.expire_all()
        assert api_as("admin", "GET", f"/api/v1/hypervisor/{cast.node.id}").json["data"]["secure_boot"] is is_supported


def test_secure_boot_refused_by_node_fails_task(api_as, stopped_instance, run_tasks, node, monkeypatch):
    answer = switch_secure_boot(api_as, stopped_instance)
    monkeypatch.setattr(node, "options", type(node.options)(secure_boot=0))
    run_tasks()
    task = api_as("owner", "GET", f"/api/task/{answer.json['task_id']}").json
    assert "failed" in str(task)
    assert "secure boot" in str(task)


def test_secure_boot_is_switched_on_pages(browser_as, stopped_instance, run_tasks):
    for caller, address, switch in (
        ("owner", f"/instances/{stopped_instance.id}/settings", f"/instances/{stopped_instance.id}/secure-boot"),
        (
            "admin",
            f"/admin/instances/{stopped_instance.id}/settings",
            f"/admin/instances/{stopped_instance.id}/secure-boot",
        ),
    ):
        browser = browser_as(caller)
        assert "secure-boot/enable" in browser.get(address).text
        assert browser.post(f"{switch}/enable").status_code == 303
        assert "secure-boot/disable" in browser.get(address).text
        assert browser.post(f"{switch}/disable").status_code == 303


def test_operator_marks_image_as_signed(api_as, cast):
    path = f"/api/v1/image/{cast.image.id}"
    assert api_as("admin", "PUT", path, json={"secure_boot": True}).json["data"]["secure_boot"] is True
