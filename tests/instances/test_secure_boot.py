"""Secure boot: by both APIs, on the pages, on the node, and what does not go together with it."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, Rescue
from panel.services import instances
from panel.services.migrations import target_selection
from worker.sync import node_sync
from worker.tasks.machine_spec import build_spec as described

API_PREFIXES = (("owner", "/api"), ("admin", "/api/v1"))


@pytest.fixture
def off_instance(cast, node, run_tasks):
    """A machine that is off, of an image whose boot loader is signed."""
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
def secured_instance(off_instance, run_tasks):
    instances.set_secure_boot(off_instance, True, actor="test")
    session.commit()
    run_tasks()
    return off_instance


def firmware_files(node, instance):
    [row] = node.state.rows("SELECT definition FROM machines WHERE id = ?", instance.id)
    return row["definition"]


def reason(answer):
    return answer.status_code, answer.json["reason"]


def switch_secure_boot(as_, instance, who="owner", prefix="/api", action="enable"):
    return as_(who, "POST", f"{prefix}/instance/{instance.id}/secure-boot/{action}")


@pytest.mark.parametrize(("who", "prefix"), API_PREFIXES)
def test_it_is_switched_on_and_off(api_as, off_instance, run_tasks, node, who, prefix):
    for action, on in (("enable", True), ("enable", True), ("disable", False)):
        answer = switch_secure_boot(api_as, off_instance, who, prefix, action)
        assert answer.status_code == 200
        assert (answer.json.get("data") or answer.json)["task_id"]
        run_tasks()
        assert api_as("owner", "GET", f"/api/instance/{off_instance.id}").json["secure_boot_enabled"] is on
        assert (b'"secure_boot":true' in bytes(firmware_files(node, off_instance))) is on


@pytest.mark.parametrize(("who", "prefix"), API_PREFIXES)
def test_a_running_machine_keeps_its_firmware(api_as, off_instance, run_tasks, who, prefix):
    instances.run_power_action(off_instance, "start", actor="test")
    session.commit()
    run_tasks()
    assert reason(switch_secure_boot(api_as, off_instance, who, prefix)) == (409, "not_stopped")
    off_instance.secure_boot_enabled = True
    session.commit()
    assert reason(switch_secure_boot(api_as, off_instance, who, prefix, "disable")) == (409, "not_stopped")


@pytest.mark.parametrize(("who", "prefix"), API_PREFIXES)
def test_a_node_without_the_firmware_refuses(api_as, cast, off_instance, who, prefix):
    """VER-08"""
    cast.node.secure_boot = False
    session.commit()
    assert reason(switch_secure_boot(api_as, off_instance, who, prefix)) == (409, "secure_boot_unsupported_on_node")
    assert off_instance.secure_boot_enabled is False


def test_an_image_that_is_not_signed_is_refused(api_as, cast, off_instance):
    cast.image.secure_boot = False
    session.commit()
    assert reason(switch_secure_boot(api_as, off_instance)) == (409, "secure_boot_unsupported_by_image")


def test_a_machine_with_it_takes_no_unsigned_image(api_as, cast, secured_instance, run_tasks):
    cast.image.secure_boot = False
    session.commit()
    answer = api_as("owner", "POST", f"/api/instance/{secured_instance.id}/reinstall", json={"image_id": cast.image.id})
    assert answer.status_code == 422
    assert "secure boot" in answer.json["errors"]["image_id"][0]


def test_a_machine_needs_the_memory_to_start_by_uefi(api_as, off_instance):
    off_instance.ram = 256
    session.commit()
    answer = switch_secure_boot(api_as, off_instance)
    assert reason(answer) == (409, "secure_boot_unsupported_by_image")
    assert "384 MiB" in answer.json["message"]


def test_snapshots_and_secure_boot_exclude_each_other(api_as, off_instance, run_tasks):
    path = f"/api/instance/{off_instance.id}/snapshot"
    assert api_as("owner", "POST", path, json={"snapname": "before"}).status_code in (200, 201)
    run_tasks()
    assert reason(switch_secure_boot(api_as, off_instance)) == (409, "has_snapshots")
    off_instance.secure_boot_enabled = True
    session.commit()
    assert reason(api_as("owner", "POST", path, json={"snapname": "after"})) == (409, "secure_boot_enabled")


def test_the_rescue_system_starts_without_it(secured_instance):
    assert described(secured_instance).secure_boot is True
    session.add(Rescue(instance_id=secured_instance.id, since=clock.now(), password="secret"))
    session.flush()
    assert described(secured_instance).secure_boot is False


def test_a_node_that_cannot_secure_is_no_target_for_a_move(cast, secured_instance):
    cast.node.tpm = True
    facts = {"group_id": cast.node.group_id, "driver": cast.node.driver, "uri": cast.node.uri}
    other = Hypervisor(name="other", **facts)
    session.add(other)
    session.flush()
    assert "secure boot" in target_selection.target_error(secured_instance, other)
    other.secure_boot = True
    assert target_selection.target_error(secured_instance, other) is None
    secured_instance.tpm_enabled = True
    assert "TPM" in target_selection.target_error(secured_instance, other)


def test_others_and_viewers_do_not_switch(api_as, off_instance):
    assert switch_secure_boot(api_as, off_instance, "outsider").status_code == 404
    assert switch_secure_boot(api_as, off_instance, "viewer").status_code == 403
    assert switch_secure_boot(api_as, off_instance, action="toggle").status_code == 404


def test_whether_a_node_can_is_what_it_says(api_as, cast, node, monkeypatch):
    for number, said in ((0, False), (1, True)):
        monkeypatch.setattr(node, "options", type(node.options)(secure_boot=number))
        node_sync.probe(cast.node.id)
        session.expire_all()
        assert api_as("admin", "GET", f"/api/v1/hypervisor/{cast.node.id}").json["data"]["secure_boot"] is said


def test_a_node_that_refuses_says_so_in_the_task(api_as, off_instance, run_tasks, node, monkeypatch):
    answer = switch_secure_boot(api_as, off_instance)
    monkeypatch.setattr(node, "options", type(node.options)(secure_boot=0))
    run_tasks()
    task = api_as("owner", "GET", f"/api/task/{answer.json['task_id']}").json
    assert "failed" in str(task)
    assert "secure boot" in str(task)


def test_it_is_switched_on_the_pages(browser_as, off_instance, run_tasks):
    for who, address, switch in (
        ("owner", f"/instances/{off_instance.id}/settings", f"/instances/{off_instance.id}/secure-boot"),
        ("admin", f"/admin/instances/{off_instance.id}/settings", f"/admin/instances/{off_instance.id}/secure-boot"),
    ):
        browser = browser_as(who)
        assert "secure-boot/enable" in browser.get(address).text
        assert browser.post(f"{switch}/enable").status_code == 303
        assert "secure-boot/disable" in browser.get(address).text
        assert browser.post(f"{switch}/disable").status_code == 303


def test_operators_say_which_images_are_signed(api_as, cast):
    path = f"/api/v1/image/{cast.image.id}"
    assert api_as("admin", "PUT", path, json={"secure_boot": True}).json["data"]["secure_boot"] is True
