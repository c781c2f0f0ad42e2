"""Screen, TPM, boot order and names: by both APIs, on the pages, and on the node."""

import pytest

from panel.core.db import session
from panel.services import instances
from worker.nodes.base import Machine
from worker.nodes.simulated import SimulatedNode
from worker.sync import node_sync

BOTH = (("owner", "/api"), ("admin", "/api/v1"))


@pytest.fixture
def machine(cast, node, work):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    work()
    return instance


@pytest.fixture
def off(machine, work):
    instances.act(machine, "poweroff", actor="test")
    session.commit()
    work()
    assert machine.state == "stopped"
    return machine


@pytest.fixture
def defined(monkeypatch):
    """What the node was told to define."""
    seen: list[Machine] = []
    real = SimulatedNode.define

    def define(self, machine):
        seen.append(machine)
        real(self, machine)

    monkeypatch.setattr(SimulatedNode, "define", define)
    return seen


def without_tpm(cast):
    cast.node.tpm = False
    session.commit()


def reason(answer):
    return answer.status_code, answer.json["reason"]


@pytest.mark.parametrize(("who", "prefix"), BOTH)
def test_the_screen_is_switched_off_and_on(as_, machine, work, defined, who, prefix):
    """ENV-25"""
    for action, on in (("disable", False), ("disable", False), ("enable", True)):
        answer = as_(who, "POST", f"{prefix}/instance/{machine.id}/vnc/{action}")
        assert answer.status_code == 200
        assert answer.json["success"] is True
        assert (answer.json["data"] if who == "admin" else answer.json)["task_id"]
        assert as_("owner", "GET", f"/api/instance/{machine.id}").json["enable_vnc"] is on
        work()
        assert defined[-1].vnc is on


def test_a_machine_that_is_not_made_yet_is_told_nothing(as_, cast):
    instance = cast.instance()
    assert "task_id" not in as_("owner", "POST", f"/api/instance/{instance.id}/vnc/disable").json
    assert as_("admin", "POST", f"/api/v1/instance/{instance.id}/vnc/disable").json["data"] == {"task_id": None}


@pytest.mark.parametrize("part", ["vnc", "tpm"])
def test_other_actions_and_others_machines_are_not_found(as_, machine, part):
    assert as_("owner", "POST", f"/api/instance/{machine.id}/{part}/toggle").status_code == 404
    assert as_("outsider", "POST", f"/api/instance/{machine.id}/{part}/enable").status_code == 404
    assert as_("viewer", "POST", f"/api/instance/{machine.id}/{part}/enable").status_code == 403


@pytest.mark.parametrize(("who", "prefix"), BOTH)
def test_a_tpm_is_built_into_a_machine_that_is_off(as_, off, work, defined, who, prefix):
    assert as_(who, "POST", f"{prefix}/instance/{off.id}/tpm/enable").status_code == 200
    work()
    assert defined[-1].tpm is True
    assert as_("owner", "GET", f"/api/instance/{off.id}").json["tpm_enabled"] is True
    assert as_(who, "POST", f"{prefix}/instance/{off.id}/tpm/disable").status_code == 200
    work()
    assert defined[-1].tpm is False


@pytest.mark.parametrize(("who", "prefix"), BOTH)
def test_a_running_machine_is_stopped_first(as_, machine, who, prefix):
    assert reason(as_(who, "POST", f"{prefix}/instance/{machine.id}/tpm/enable")) == (409, "not_stopped")
    assert machine.tpm_enabled is False


@pytest.mark.parametrize(("who", "prefix"), BOTH)
def test_a_node_without_swtpm_gives_no_tpm(as_, cast, off, who, prefix):
    """INS-87"""
    without_tpm(cast)
    answer = as_(who, "POST", f"{prefix}/instance/{off.id}/tpm/enable")
    assert reason(answer) == (409, "tpm_unsupported_on_node")
    assert off.tpm_enabled is False


@pytest.mark.parametrize(("who", "prefix"), BOTH)
def test_disabling_a_tpm_is_never_blocked(as_, cast, machine, who, prefix):
    """INS-88: on a node that lost its swtpm, also while the machine runs."""
    machine.tpm_enabled = True
    without_tpm(cast)
    assert as_(who, "POST", f"{prefix}/instance/{machine.id}/tpm/disable").status_code == 200
    assert machine.tpm_enabled is False


def test_whether_a_node_has_a_tpm_is_what_it_says(as_, cast, node, monkeypatch):
    monkeypatch.setattr(node, "options", type(node.options)(tpm=0))
    node_sync.check(cast.node.id)
    session.expire_all()
    assert as_("admin", "GET", f"/api/v1/hypervisor/{cast.node.id}").json["data"]["tpm"] is False


def test_a_node_that_refuses_says_so_in_the_task(as_, off, work, node, monkeypatch):
    """The node lost its swtpm after it was asked: the task fails, and the row keeps what is wanted."""
    answer = as_("owner", "POST", f"/api/instance/{off.id}/tpm/enable")
    monkeypatch.setattr(node, "options", type(node.options)(tpm=0))
    work()
    task = as_("owner", "GET", f"/api/task/{answer.json['task_id']}").json
    assert "failed" in str(task)
    assert "TPM" in str(task)


def test_the_boot_order_has_a_path_of_its_own(as_, machine):
    path = f"/api/instance/{machine.id}/boot-order"
    assert as_("owner", "POST", path, json={"boot": "cdrom,disk"}).json["instance"]["boot"] == "cdrom,disk"
    for wrong in ({}, {"boot": "floppy"}, {"boot": None}, {"boot": "disk", "more": 1}):
        assert as_("owner", "POST", path, json=wrong).status_code == 422


@pytest.mark.parametrize("key", ["name", "display_name"])
def test_the_label_has_a_path_of_its_own(as_, machine, key):
    before = machine.name
    body = as_("owner", "POST", f"/api/instance/{machine.id}/update-name", json={key: "Shop"}).json["instance"]
    assert (body["display_name"], body["name"]) == ("Shop", before)
    assert as_("owner", "POST", f"/api/instance/{machine.id}/update-name", json={}).status_code == 422


def test_customers_switch_on_the_settings_tab(browse, machine, work):
    browser = browse("owner")
    address = f"/instances/{machine.id}/settings"
    assert "Switch off: Screen" in browser.get(address).text
    assert browser.post(f"/instances/{machine.id}/vnc/disable").status_code == 303
    assert "Switch on: Screen" in browser.get(address).text
    assert "Stop it first" in browser.get(address).text
    assert browser.post(f"/instances/{machine.id}/tpm/enable").status_code == 409
    assert browse("viewer").post(f"/instances/{machine.id}/vnc/enable").status_code == 403
    assert browser.post(address, data={"boot": "cdrom,disk", "vnc_keymap": "de"}).status_code == 303
    assert (machine.boot, machine.vnc_keymap) == ("cdrom,disk", "de")


def test_operators_switch_on_the_page_of_an_instance(browse, machine):
    browser = browse("admin")
    assert browser.post(f"/admin/instances/{machine.id}/vnc/disable").status_code == 303
    assert machine.enable_vnc is False
    assert "/vnc/enable" in browser.get(f"/admin/instances/{machine.id}/settings").text
    assert browse("owner").post(f"/admin/instances/{machine.id}/vnc/enable").status_code == 403


@pytest.mark.parametrize(("who", "base"), [("owner", ""), ("admin", "/admin")])
def test_mail_is_shut_and_opened_on_the_settings_tab(browse, machine, work, node, who, base):
    """INS-23"""
    browser, address = browse(who), f"{base}/instances/{machine.id}"
    assert "Switch off: Mail by port 25" in browser.get(f"{address}/settings").text
    assert browser.post(f"{address}/mail/disable").status_code == 303
    assert machine.enable_smtp is False
    work()
    assert node.cards_of(machine.id)[0]["mail"] is False
    assert "Shut" in browser.get(f"{address}/network").text
    assert browser.post(f"{address}/mail/enable").status_code == 303
    assert machine.enable_smtp is True
    assert browse("viewer").post(f"/instances/{machine.id}/mail/disable").status_code == 403
