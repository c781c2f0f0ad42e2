"""Captures of running machines: the guest continues, and the image is a point-in-time copy."""

import pytest

from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Event, Image, Task
from panel.services.instances import blockers
from tests.support.running_machine import guest, machine  # noqa: F401  (fixtures)
from tests.support.worker_faults import fault_at, kill_worker_at, requeue_to_new_worker  # noqa: F401  (fixtures)
from worker.nodes.base import Power, make_overlay_name
from worker.nodes.simulated import overlays
from worker.sync import node_sync

NODE_CALLS = ["create_overlays", "copy_disk", "commit_overlay", "read_disk", "delete_disk"]


@pytest.fixture
def request_capture(api_as, machine):
    """Return a function that requests a capture and returns the answer and the task."""

    def make():
        answer = api_as("owner", "POST", "/api/images", json={"instance_id": machine.id, "name": "golden"})
        return answer, session.query(Task).filter_by(kind="image_capture").order_by(Task.id.desc()).first()

    return make


@pytest.fixture
def copied_files(node, monkeypatch):
    """The files in each disk copy that was read, in order."""
    results, read_disk = [], type(node).read_disk

    def record_files(self, disk, *args):
        results.append(overlays.read_files(self.state, {"pool": disk.pool, "name": disk.name}))
        return read_disk(self, disk, *args)

    monkeypatch.setattr(type(node), "read_disk", record_files)
    return results


def find_leftovers(node, machine):
    """Return the names of overlays and copies that are still on the node."""
    name = make_overlay_name(machine.disks[0].name)
    return [disk.name for disk in node.disks("default") if disk.name == name or disk.name.startswith("capture-")]


def test_capture_of_running_machine_is_point_in_time(
    api_as, request_capture, node, machine, guest, run_tasks, fault_at, copied_files
):
    guest.write("before")
    answer, _ = request_capture()
    assert (answer.status_code, answer.json["image"]["status"]) == (200, "creating")
    with fault_at("copy_disk", lambda: guest.write("later")):
        run_tasks()
    image = api_as("owner", "GET", f"/api/image/{answer.json['image']['id']}").json["image"]
    assert image["status"] == "available"
    assert copied_files == [{"/file": "before"}]
    assert guest.read() == "later"
    assert (machine.state, find_leftovers(node, machine)) == ("running", [])
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/start")
    run_tasks()
    assert guest.read() == "later"


@pytest.mark.parametrize("fault", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize("step", NODE_CALLS)
def test_capture_fails_when_node_fails(request_capture, node, machine, guest, run_tasks, step, fault):
    guest.write("before")
    node.fault(step, fault, count=1)
    answer, capture = request_capture()
    run_tasks()
    assert session.get(Image, answer.json["image"]["id"]).status == "error"
    assert machine.state == "running"
    node.clear()
    from tests.support.task_queue import queued_calls

    queued_calls.append(("worker.engine.runner.run", (capture.id,)))
    run_tasks()
    assert find_leftovers(node, machine) == []
    assert guest.read() == "before"


@pytest.mark.parametrize("powered", ["on", "off"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", NODE_CALLS)
def test_capture_is_retried_after_worker_death(
    request_capture, node, machine, guest, kill_worker_at, step, after, powered
):
    """The next worker commits the overlay, thaws the guest, and starts again."""
    guest.write("before")
    answer, capture = request_capture()
    kill_worker_at(capture, step, after=after)
    guest.write("meanwhile")
    if powered == "off":
        node.power_off(machine.id)
    assert requeue_to_new_worker(capture).status == "completed"
    assert session.get(Image, answer.json["image"]["id"]).status == "available"
    assert find_leftovers(node, machine) == []
    node.start(machine.id)
    assert guest.read() == "meanwhile"


@pytest.mark.parametrize("step", ["create_overlays", "copy_disk", "commit_overlay", "read_disk"])
def test_capture_completes_when_machine_is_powered_off(
    api_as, request_capture, node, machine, guest, run_tasks, fault_at, step
):
    guest.write("before")
    answer, _ = request_capture()
    with fault_at(step, lambda: node.power_off(machine.id)):
        run_tasks()
    assert session.get(Image, answer.json["image"]["id"]).status == "available"
    assert find_leftovers(node, machine) == []
    node.start(machine.id)
    assert guest.read() == "before"


def test_overlay_commit_does_not_report_running(
    api_as, request_capture, node, machine, run_tasks, fault_at, monkeypatch
):
    """A machine that was powered off is started paused for the commit; no `running` event is published."""

    def report_paused_machine_on():
        with monkeypatch.context() as patched:
            patched.setattr(type(node), "power", lambda self, machine_id: Power.paused)
            node_sync.on_power_event(machine.hypervisor_id, machine.id, Power.on)

    def power_off_and_reconcile():
        node.power_off(machine.id)
        node_sync.reconcile(machine.hypervisor_id)

    request_capture()
    with fault_at("copy_disk", power_off_and_reconcile), fault_at("commit_overlay", report_paused_machine_on):
        run_tasks()
    events = session.query(Event).filter_by(kind="instance.status_changed", resource_id=machine.id).order_by(Event.id)
    assert [event.data["status"] for event in events][-1:] == ["stopped"]
    assert machine.state == "stopped"
    assert [event.data["status"] for event in events].count("running") <= 1


def test_cancelled_capture_leaves_nothing(api_as, request_capture, node, machine, guest, run_tasks, fault_at):
    answer, capture = request_capture()
    with fault_at("copy_disk", lambda: api_as("owner", "POST", f"/api/task/{capture.id}/cancel")):
        run_tasks()
    assert (capture.status, session.get(Image, answer.json["image"]["id"]).status) == ("cancelled", "error")
    assert find_leftovers(node, machine) == []


def test_running_capture_blocks_forge_and_migration(api_as, request_capture, machine):
    """A live session or a migration would conflict with the overlay."""
    request_capture()
    assert api_as("owner", "POST", f"/api/instance/{machine.id}/forge/enable").json["reason"] == "task_running"
    with pytest.raises(Conflict) as refusal:
        blockers.ensure_movable(machine)
    assert refusal.value.reason == "task_running"


def test_live_session_blocks_capture(api_as, request_capture, machine, run_tasks):
    api_as("owner", "POST", f"/api/instance/{machine.id}/forge/enable")
    for _ in range(2):
        assert request_capture()[0].json["reason"] == "already_active"
        run_tasks()
    api_as("owner", "POST", f"/api/instance/{machine.id}/forge/commit")
    run_tasks()
    assert request_capture()[0].status_code == 200


def test_capture_by_page(browser_as, machine, run_tasks):
    owner = browser_as("owner")
    page = f"/instances/{machine.id}"
    assert "Create image" in owner.get(f"{page}/media").text
    assert owner.post(f"{page}/capture", data={"name": " golden "}).status_code == 303
    assert owner.post(f"{page}/capture", data={"name": "a\u202eb"}).status_code == 422
    run_tasks()
    assert [(image.name, image.status) for image in session.query(Image).filter_by(purpose="user")] == [
        ("golden", "available")
    ]
