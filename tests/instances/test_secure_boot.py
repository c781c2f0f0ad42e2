"""Secure boot: by both APIs, on the pages, on the node, and what does not go together with it."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, Rescue
from panel.services import instances
from panel.services.migrations import target_selection
from worker.sync import node_sync
from worker.tasks.machine_spec import machine as described

BOTH = (("owner", "/api"), ("admin", "/api/v1"))


@pytest.fixture
def off(cast, node, work):
    """A machine that is off, of an image whose boot loader is signed."""
    cast.image.secure_boot = cast.node.secure_boot = True
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    work()
    instances.act(instance, "poweroff", actor="test")
    session.commit()
    work()
    assert instance.state == "stopped"
    return instance


@pytest.fixture
def secured(off, work):
    instances.switch_secure_boot(off, True, actor="test")
    session.commit()
    work()
    return off


def kept(node, instance):
    [row] = node.state.rows("SELECT definition FROM machines WHERE id = ?", instance.id)
    return row["definition"]


def reason(answer):
    return answer.status_code, answer.json["reason"]


def enable(as_, instance, who="owner", prefix="/api", action="enable"):
    return as_(who, "POST", f"{prefix}/instance/{instance.id}/secure-boot/{action}")


@pytest.mark.parametrize(("who", "prefix"), BOTH)
def test_it_is_switched_on_and_off(as_, off, work, node, who, prefix):
    for action, on in (("enable", True), ("enable", True), ("disable", False)):
        answer = enable(as_, off, who, prefix, action)
        assert answer.status_code == 200
        assert (answer.json.get("data") or answer.json)["task_id"]
        work()
        assert as_("owner", "GET", f"/api/instance/{off.id}").json["secure_boot_enabled"] is on
        assert (b'"secure_boot":true' in bytes(kept(node, off))) is on


@pytest.mark.parametrize(("who", "prefix"), BOTH)
def test_a_running_machine_keeps_its_firmware(as_, off, work, who, prefix):
    instances.act(off, "start", actor="test")
    session.commit()
    work()
    assert reason(enable(as_, off, who, prefix)) == (409, "not_stopped")
    off.secure_boot_enabled = True
    session.commit()
    assert reason(enable(as_, off, who, prefix, "disable")) == (409, "not_stopped")


@pytest.mark.parametrize(("who", "prefix"), BOTH)
def test_a_node_without_the_firmware_refuses(as_, cast, off, who, prefix):
    """VER-08"""
    cast.node.secure_boot = False
    session.commit()
    assert reason(enable(as_, off, who, prefix)) == (409, "secure_boot_unsupported_on_node")
    assert off.secure_boot_enabled is False


def test_an_image_that_is_not_signed_is_refused(as_, cast, off):
    cast.image.secure_boot = False
    session.commit()
    assert reason(enable(as_, off)) == (409, "secure_boot_unsupported_by_image")


def test_a_machine_with_it_takes_no_unsigned_image(as_, cast, secured, work):
    cast.image.secure_boot = False
    session.commit()
    answer = as_("owner", "POST", f"/api/instance/{secured.id}/reinstall", json={"image_id": cast.image.id})
    assert answer.status_code == 422
    assert "secure boot" in answer.json["errors"]["image_id"][0]


def test_a_machine_needs_the_memory_to_start_by_uefi(as_, off):
    off.ram = 256
    session.commit()
    answer = enable(as_, off)
    assert reason(answer) == (409, "secure_boot_unsupported_by_image")
    assert "384 MiB" in answer.json["message"]


def test_snapshots_and_secure_boot_exclude_each_other(as_, off, work):
    path = f"/api/instance/{off.id}/snapshot"
    assert as_("owner", "POST", path, json={"snapname": "before"}).status_code in (200, 201)
    work()
    assert reason(enable(as_, off)) == (409, "has_snapshots")
    off.secure_boot_enabled = True
    session.commit()
    assert reason(as_("owner", "POST", path, json={"snapname": "after"})) == (409, "secure_boot_enabled")


def test_the_rescue_system_starts_without_it(secured):
    assert described(secured).secure_boot is True
    session.add(Rescue(instance_id=secured.id, since=clock.now(), password="secret"))
    session.flush()
    assert described(secured).secure_boot is False


def test_a_node_that_cannot_secure_is_no_target_for_a_move(cast, secured):
    cast.node.tpm = True
    facts = {"group_id": cast.node.group_id, "driver": cast.node.driver, "uri": cast.node.uri}
    other = Hypervisor(name="other", **facts)
    session.add(other)
    session.flush()
    assert "secure boot" in target_selection.misfit(secured, other)
    other.secure_boot = True
    assert target_selection.misfit(secured, other) is None
    secured.tpm_enabled = True
    assert "TPM" in target_selection.misfit(secured, other)


def test_others_and_viewers_do_not_switch(as_, off):
    assert enable(as_, off, "outsider").status_code == 404
    assert enable(as_, off, "viewer").status_code == 403
    assert enable(as_, off, action="toggle").status_code == 404


def test_whether_a_node_can_is_what_it_says(as_, cast, node, monkeypatch):
    for number, said in ((0, False), (1, True)):
        monkeypatch.setattr(node, "options", type(node.options)(secure_boot=number))
        node_sync.check(cast.node.id)
        session.expire_all()
        assert as_("admin", "GET", f"/api/v1/hypervisor/{cast.node.id}").json["data"]["secure_boot"] is said


def test_a_node_that_refuses_says_so_in_the_task(as_, off, work, node, monkeypatch):
    answer = enable(as_, off)
    monkeypatch.setattr(node, "options", type(node.options)(secure_boot=0))
    work()
    task = as_("owner", "GET", f"/api/task/{answer.json['task_id']}").json
    assert "failed" in str(task)
    assert "secure boot" in str(task)


def test_it_is_switched_on_the_pages(browse, off, work):
    for who, address, switch in (
        ("owner", f"/instances/{off.id}/settings", f"/instances/{off.id}/secure-boot"),
        ("admin", f"/admin/instances/{off.id}/settings", f"/admin/instances/{off.id}/secure-boot"),
    ):
        browser = browse(who)
        assert "secure-boot/enable" in browser.get(address).text
        assert browser.post(f"{switch}/enable").status_code == 303
        assert "secure-boot/disable" in browser.get(address).text
        assert browser.post(f"{switch}/disable").status_code == 303


def test_operators_say_which_images_are_signed(as_, cast):
    path = f"/api/v1/image/{cast.image.id}"
    assert as_("admin", "PUT", path, json={"secure_boot": True}).json["data"]["secure_boot"] is True
