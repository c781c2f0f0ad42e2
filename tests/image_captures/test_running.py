# ruff: noqa: F811  (fixtures are arguments)
"""Images of machines that run: the guest goes on, and the image has what was there at one moment (acceptance C4)."""

import pytest

from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Event, Image, Task
from panel.services.instances import blockers
from tests.live_snapshots.conftest import guest, machine  # noqa: F401  (fixtures)
from tests.live_snapshots.test_faults import by_another_worker
from tests.worker.conftest import at, die  # noqa: F401  (fixtures)
from worker.nodes.base import Power, overlay_of
from worker.nodes.simulated import overlays
from worker.sync import node_sync

STEPS = ["lay_overlays", "copy_disk", "merge_overlay", "read_disk", "delete_disk"]


@pytest.fixture
def make(as_, machine):
    """Asks for an image of the machine; gives the answer and the task."""

    def make():
        answer = as_("owner", "POST", "/api/images", json={"instance_id": machine.id, "name": "golden"})
        return answer, session.query(Task).filter_by(kind="image_capture").order_by(Task.id.desc()).first()

    return make


@pytest.fixture
def copied(node, monkeypatch):
    """What the copies held that were read."""
    found, read_disk = [], type(node).read_disk

    def reading(self, disk, *args):
        found.append(overlays.files(self.state, {"pool": disk.pool, "name": disk.name}))
        return read_disk(self, disk, *args)

    monkeypatch.setattr(type(node), "read_disk", reading)
    return found


def left(node, machine):
    """What is on the node that should not be."""
    name = overlay_of(machine.disks[0].name)
    return [disk.name for disk in node.disks("default") if disk.name == name or disk.name.startswith("capture-")]


def test_it_has_what_was_there_when_it_was_taken(as_, make, node, machine, guest, work, at, copied):
    guest.write("before")
    answer, _ = make()
    assert (answer.status_code, answer.json["image"]["status"]) == (200, "creating")
    with at("copy_disk", lambda: guest.write("later")):
        work()
    image = as_("owner", "GET", f"/api/image/{answer.json['image']['id']}").json["image"]
    assert image["status"] == "available"
    assert copied == [{"/file": "before"}]
    assert guest.read() == "later"
    assert (machine.state, left(node, machine)) == ("running", [])
    as_("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    as_("owner", "POST", f"/api/instance/{machine.id}/power/start")
    work()
    assert guest.read() == "later"


@pytest.mark.parametrize("fault", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize("step", STEPS)
def test_a_node_that_fails(make, node, machine, guest, work, step, fault):
    guest.write("before")
    node.fault(step, fault, count=1)
    answer, made = make()
    work()
    assert session.get(Image, answer.json["image"]["id"]).status == "error"
    assert machine.state == "running"
    node.clear()
    from tests.conftest import bells

    bells.append(("worker.engine.runner.run", (made.id,)))
    work()
    assert left(node, machine) == []
    assert guest.read() == "before"


@pytest.mark.parametrize("powered", ["on", "off"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_worker_dies(make, node, machine, guest, die, step, after, powered):
    """The next one takes the overlay back, thaws the guest, and begins anew."""
    guest.write("before")
    answer, made = make()
    die(made, step, after=after)
    guest.write("meanwhile")
    if powered == "off":
        node.power_off(machine.id)
    assert by_another_worker(made).status == "completed"
    assert session.get(Image, answer.json["image"]["id"]).status == "available"
    assert left(node, machine) == []
    node.start(machine.id)
    assert guest.read() == "meanwhile"


@pytest.mark.parametrize("step", ["lay_overlays", "copy_disk", "merge_overlay", "read_disk"])
def test_it_is_powered_off_in_between(as_, make, node, machine, guest, work, at, step):
    guest.write("before")
    answer, _ = make()
    with at(step, lambda: node.power_off(machine.id)):
        work()
    assert session.get(Image, answer.json["image"]["id"]).status == "available"
    assert left(node, machine) == []
    node.start(machine.id)
    assert guest.read() == "before"


def test_merging_does_not_count_as_running(as_, make, node, machine, work, at, monkeypatch):
    """A machine that went off meanwhile is started paused for that: its owner is not told that it ran."""

    def merging():
        with monkeypatch.context() as patched:
            patched.setattr(type(node), "power", lambda self, machine_id: Power.paused)
            node_sync.changed(machine.hypervisor_id, machine.id, Power.on)

    def powered_off():
        node.power_off(machine.id)
        node_sync.refresh(machine.hypervisor_id)

    make()
    with at("copy_disk", powered_off), at("merge_overlay", merging):
        work()
    events = session.query(Event).filter_by(kind="instance.status_changed", resource_id=machine.id).order_by(Event.id)
    assert [event.data["status"] for event in events][-1:] == ["stopped"]
    assert machine.state == "stopped"
    assert [event.data["status"] for event in events].count("running") <= 1


def test_it_is_cancelled_in_between(as_, make, node, machine, guest, work, at):
    answer, made = make()
    with at("copy_disk", lambda: as_("owner", "POST", f"/api/task/{made.id}/cancel")):
        work()
    assert (made.status, session.get(Image, answer.json["image"]["id"]).status) == ("cancelled", "error")
    assert left(node, machine) == []


def test_what_is_refused_meanwhile(as_, make, machine):
    """A live session and a migration would meet the overlay."""
    make()
    assert as_("owner", "POST", f"/api/instance/{machine.id}/forge/enable").json["reason"] == "task_running"
    with pytest.raises(Conflict) as refusal:
        blockers.refuse_tied(machine)
    assert refusal.value.reason == "task_running"


def test_a_live_session_comes_first(as_, make, machine, work):
    as_("owner", "POST", f"/api/instance/{machine.id}/forge/enable")
    for _ in range(2):
        assert make()[0].json["reason"] == "already_active"
        work()
    as_("owner", "POST", f"/api/instance/{machine.id}/forge/commit")
    work()
    assert make()[0].status_code == 200


def test_by_page(browse, machine, work):
    owner = browse("owner")
    page = f"/instances/{machine.id}"
    assert "Create image" in owner.get(f"{page}/media").text
    assert owner.post(f"{page}/capture", data={"name": " golden "}).status_code == 303
    assert owner.post(f"{page}/capture", data={"name": "a\u202eb"}).status_code == 422
    work()
    assert [(image.name, image.status) for image in session.query(Image).filter_by(purpose="user")] == [
        ("golden", "available")
    ]
