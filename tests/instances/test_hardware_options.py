"""VNC, TPM, boot order and names: in both APIs, on the pages, and on the node."""

import pytest

from panel.core.db import session
from panel.services import instances
from worker.nodes.base import Machine
from worker.nodes.simulated import SimulatedNode
from worker.sync import node_sync

API_PREFIXES = (("owner", "/api"), ("admin", "/api/v1"))


@pytest.fixture
def machine(cast, node, run_tasks):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    return instance


@pytest.fixture
def stopped_instance(machine, run_tasks):
    instances.run_power_action(machine, "poweroff", actor="test")
    session.commit()
    run_tasks()
    assert machine.state == "stopped"
    return machine


@pytest.fixture
def defined_machines(monkeypatch):
    """The machines that were defined on the node, in order."""
    seen: list[Machine] = []
    real = SimulatedNode.define

    def define(self, machine):
        seen.append(machine)
        real(self, machine)

    monkeypatch.setattr(SimulatedNode, "define", define)
    return seen


def make_tpm_unavailable(cast):
    cast.node.tpm = False
    session.commit()


def get_status_and_reason(answer):
    return answer.status_code, answer.json["reason"]


@pytest.mark.parametrize(("caller", "prefix"), API_PREFIXES)
def test_vnc_is_disabled_and_enabled(api_as, machine, run_tasks, defined_machines, caller, prefix):
    """ENV-25"""
    for action, on in (("disable", False), ("disable", False), ("enable", True)):
        answer = api_as(caller, "POST", f"{prefix}/instance/{machine.id}/vnc/{action}")
        assert answer.status_code == 200
        assert answer.json["success"] is True
        assert (answer.json["data"] if caller == "admin" else answer.json)["task_id"]
        assert api_as("owner", "GET", f"/api/instance/{machine.id}").json["enable_vnc"] is on
        run_tasks()
        assert defined_machines[-1].vnc is on


def test_vnc_of_undeployed_instance_needs_no_task(api_as, cast):
    instance = cast.instance()
    assert "task_id" not in api_as("owner", "POST", f"/api/instance/{instance.id}/vnc/disable").json
    assert api_as("admin", "POST", f"/api/v1/instance/{instance.id}/vnc/disable").json["data"] == {"task_id": None}


@pytest.mark.parametrize("part", ["vnc", "tpm"])
def test_unknown_hardware_action_and_foreign_machine_are_refused(api_as, machine, part):
    assert api_as("owner", "POST", f"/api/instance/{machine.id}/{part}/toggle").status_code == 404
    assert api_as("outsider", "POST", f"/api/instance/{machine.id}/{part}/enable").status_code == 404
    assert api_as("viewer", "POST", f"/api/instance/{machine.id}/{part}/enable").status_code == 403


@pytest.mark.parametrize(("caller", "prefix"), API_PREFIXES)
def test_tpm_of_stopped_machine_is_enabled_and_disabled(
    api_as, stopped_instance, run_tasks, defined_machines, caller, prefix
):
    assert api_as(caller, "POST", f"{prefix}/instance/{stopped_instance.id}/tpm/enable").status_code == 200
    run_tasks()
    assert defined_machines[-1].tpm is True
    assert api_as("owner", "GET", f"/api/instance/{stopped_instance.id}").json["tpm_enabled"] is True
    assert api_as(caller, "POST", f"{prefix}/instance/{stopped_instance.id}/tpm/disable").status_code == 200
    run_tasks()
    assert defined_machines[-1].tpm is False


@pytest.mark.parametrize(("caller", "prefix"), API_PREFIXES)
def test_tpm_of_running_machine_is_refused(api_as, machine, caller, prefix):
    assert get_status_and_reason(api_as(caller, "POST", f"{prefix}/instance/{machine.id}/tpm/enable")) == (
        409,
        "not_stopped",
    )
    assert machine.tpm_enabled is False


@pytest.mark.parametrize(("caller", "prefix"), API_PREFIXES)
def test_tpm_on_node_without_swtpm_is_refused(api_as, cast, stopped_instance, caller, prefix):
    """INS-87"""
    make_tpm_unavailable(cast)
    answer = api_as(caller, "POST", f"{prefix}/instance/{stopped_instance.id}/tpm/enable")
    assert get_status_and_reason(answer) == (409, "tpm_unsupported_on_node")
    assert stopped_instance.tpm_enabled is False


@pytest.mark.parametrize(("caller", "prefix"), API_PREFIXES)
def test_tpm_disable_is_always_allowed(api_as, cast, machine, caller, prefix):
    """INS-88: also on a node that lost its swtpm, and while the machine runs."""
    machine.tpm_enabled = True
    make_tpm_unavailable(cast)
    assert api_as(caller, "POST", f"{prefix}/instance/{machine.id}/tpm/disable").status_code == 200
    assert machine.tpm_enabled is False


def test_tpm_capability_is_probed_from_node(api_as, cast, node, monkeypatch):
    monkeypatch.setattr(node, "options", type(node.options)(tpm=0))
    node_sync.probe(cast.node.id)
    session.expire_all()
    assert api_as("admin", "GET", f"/api/v1/hypervisor/{cast.node.id}").json["data"]["tpm"] is False


def test_tpm_refused_by_node_fails_task(api_as, stopped_instance, run_tasks, node, monkeypatch):
    """The node lost its swtpm after the probe: the task fails, and the row keeps the requested state."""
    answer = api_as("owner", "POST", f"/api/instance/{stopped_instance.id}/tpm/enable")
    monkeypatch.setattr(node, "options", type(node.options)(tpm=0))
    run_tasks()
    task = api_as("owner", "GET", f"/api/task/{answer.json['task_id']}").json
    assert "failed" in str(task)
    assert "TPM" in str(task)


def test_boot_order_has_own_route(api_as, machine):
    path = f"/api/instance/{machine.id}/boot-order"
    assert api_as("owner", "POST", path, json={"boot": "cdrom,disk"}).json["instance"]["boot"] == "cdrom,disk"
    for wrong in ({}, {"boot": "floppy"}, {"boot": None}, {"boot": "disk", "more": 1}):
        assert api_as("owner", "POST", path, json=wrong).status_code == 422


@pytest.mark.parametrize("key", ["name", "display_name"])
def test_display_name_has_own_route(api_as, machine, key):
    before = machine.name
    body = api_as("owner", "POST", f"/api/instance/{machine.id}/update-name", json={key: "Shop"}).json["instance"]
    assert (body["display_name"], body["name"]) == ("Shop", before)
    assert api_as("owner", "POST", f"/api/instance/{machine.id}/update-name", json={}).status_code == 422


def test_customer_switches_hardware_on_settings_tab(browser_as, machine, run_tasks):
    browser = browser_as("owner")
    address = f"/instances/{machine.id}/settings"
    assert "Switch off: Console" in browser.get(address).text
    assert browser.post(f"/instances/{machine.id}/vnc/disable").status_code == 303
    assert "Switch on: Console" in browser.get(address).text
    assert "Stop it first" in browser.get(address).text
    assert browser.post(f"/instances/{machine.id}/tpm/enable").status_code == 409
    assert browser_as("viewer").post(f"/instances/{machine.id}/vnc/enable").status_code == 403
    assert browser.post(address, data={"boot": "cdrom,disk", "vnc_keymap": "de"}).status_code == 303
    assert (machine.boot, machine.vnc_keymap) == ("cdrom,disk", "de")


def test_operator_switches_vnc_on_instance_page(browser_as, machine):
    browser = browser_as("admin")
    assert browser.post(f"/admin/instances/{machine.id}/vnc/disable").status_code == 303
    assert machine.enable_vnc is False
    assert "/vnc/enable" in browser.get(f"/admin/instances/{machine.id}/settings").text
    assert browser_as("owner").post(f"/admin/instances/{machine.id}/vnc/enable").status_code == 403


@pytest.mark.parametrize(("caller", "base"), [("owner", ""), ("admin", "/admin")])
def test_smtp_is_blocked_and_allowed_on_settings_tab(browser_as, machine, run_tasks, node, caller, base):
    """INS-23"""
    browser, address = browser_as(caller), f"{base}/instances/{machine.id}"
    assert "Switch off: Outgoing mail (SMTP, port 25)" in browser.get(f"{address}/settings").text
    assert browser.post(f"{address}/mail/disable").status_code == 303
    assert machine.enable_smtp is False
    run_tasks()
    assert node.get_nics(machine.id)[0]["mail"] is False
    assert "Blocked" in browser.get(f"{address}/network").text
    assert browser.post(f"{address}/mail/enable").status_code == 303
    assert machine.enable_smtp is True
    assert browser_as("viewer").post(f"/instances/{machine.id}/mail/disable").status_code == 403
