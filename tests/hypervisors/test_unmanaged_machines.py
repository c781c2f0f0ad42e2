"""Machines that no row knows, and rows whose machine is missing."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, Task
from panel.services import instances
from worker.nodes.base import Machine
from worker.sync import node_sync

STRANGER = "0199c0a8-0000-7000-8000-00000000abcd"


@pytest.fixture
def path(cast):
    return f"/api/v1/hypervisor/{cast.node.id}/orphan"


@pytest.fixture
def stranger(node):
    node.define(Machine(id=STRANGER, name="old-web", cpu_cores=1, memory_mb=64, disks=()))
    node.start(STRANGER)


@pytest.fixture
def lost(cast, node, work):
    """An instance whose definition somebody removed behind the panel's back."""
    made = cast.instance()
    instances.deploy(made, image_id=cast.image.id, actor="test")
    session.commit()
    work()
    node.delete(made.id)
    node_sync.refresh(cast.node.id)
    return session.get(Instance, made.id, populate_existing=True)


def ended(answer, work):
    assert answer.status_code == 200, answer.text
    work()
    return session.get(Task, answer.json["data"]["task_id"])


def test_a_discovery_finds_both_kinds(as_, path, stranger, lost, work):
    assert as_("admin", "GET", f"{path}/discoveries/latest").status_code == 404
    task = ended(as_("admin", "POST", f"{path}/discover"), work)
    found = as_("admin", "GET", f"{path}/discoveries/latest").json["data"]
    assert (found["task_id"], found["status"]) == (task.id, "completed")
    [machine] = found["unknown"]
    assert (machine["id"], machine["name"], machine["power"]) == (STRANGER, "old-web", "on")
    assert found["missing"] == [{"id": lost.id, "name": lost.name}]
    assert as_("admin", "GET", f"{path}/discoveries/{task.id}").json["data"] == found
    assert as_("admin", "GET", f"{path}/discoveries/{STRANGER}").status_code == 404


def test_a_discovery_of_older_times_is_shown(as_, path, stranger, work):
    task = ended(as_("admin", "POST", f"{path}/discover"), work)
    task.arguments = {"unknown": [{"id": STRANGER, "name": "old-web"}], "missing": []}
    session.commit()
    [machine] = as_("admin", "GET", f"{path}/discoveries/latest").json["data"]["unknown"]
    assert (machine["name"], machine["power"], machine["disks"]) == ("old-web", None, [])


def test_a_discovery_of_a_silent_hypervisor_fails(as_, path, node, work):
    node.fault("*", "refuse")
    task = ended(as_("admin", "POST", f"{path}/discover"), work)
    assert task.status == "failed"


def test_a_stranger_is_removed_when_its_name_was_typed(as_, path, stranger, node, work):
    ended(as_("admin", "POST", f"{path}/discover"), work)
    wrong = as_("admin", "POST", f"{path}/{STRANGER}/remove", json={"name": "old"})
    assert (wrong.status_code, wrong.json["errors"].keys()) == (422, {"name"})
    assert [machine.id for machine in node.machines()] == [STRANGER]
    task = ended(as_("admin", "POST", f"{path}/{STRANGER}/remove", json={"name": "old-web"}), work)
    assert (task.status, node.machines()) == ("completed", [])
    assert as_("admin", "POST", f"{path}/{STRANGER}/remove", json={"name": "old-web"}).status_code == 404


def test_a_machine_that_belongs_to_somebody_is_not_removed(as_, path, cast, node, work):
    """What was seen is old by then."""
    made = cast.instance()
    instances.deploy(made, image_id=cast.image.id, actor="test")
    session.commit()
    work()
    session.get(Hypervisor, cast.node.id).strangers = [{"id": made.id, "name": made.name}]
    session.commit()
    asked = as_("admin", "POST", f"{path}/{made.id}/remove", json={"name": made.name})
    assert ended(asked, work).status == "failed"
    assert [machine.id for machine in node.machines()] == [made.id]


def test_a_missing_machine_is_defined_anew_over_its_disks(as_, lost, node, work):
    assert lost.lost
    task = ended(as_("admin", "POST", f"/api/v1/instance/{lost.id}/repair"), work)
    again = session.get(Instance, lost.id, populate_existing=True)
    assert (task.status, again.lost, again.last_error, again.state) == ("completed", False, None, "stopped")
    assert [machine.id for machine in node.machines()] == [lost.id]
    assert as_("admin", "POST", f"/api/v1/instance/{lost.id}/repair").status_code == 409


def test_without_its_disk_it_stays_missing_and_says_so(as_, lost, node, work):
    node.delete_disk("default", lost.disks[0].name)
    task = ended(as_("admin", "POST", f"/api/v1/instance/{lost.id}/repair"), work)
    assert (task.status, lost.disks[0].name in task.error_detail) == ("failed", True)
    assert session.get(Instance, lost.id, populate_existing=True).lost
    assert node.machines() == []


def test_a_missing_machine_is_forgotten_by_destroying_it(as_, lost, work):
    assert as_("admin", "DELETE", f"/api/v1/instance/{lost.id}").status_code == 200
    work()
    assert session.get(Instance, lost.id, populate_existing=True) is None


def test_the_page(browse, cast, stranger, lost, node, work):
    operator, page = browse("admin"), f"/admin/hypervisors/{cast.node.id}/orphans"
    operator.post(f"{page}/discover")
    work()
    shown = operator.get(page).text
    for word in ("old-web", lost.display_name, "Define anew"):
        assert word in shown
    assert operator.post(f"{page}/{STRANGER}/remove", data={"typed": "x"}).status_code == 422
    assert operator.post(f"{page}/{STRANGER}/remove", data={"typed": "old-web"}).status_code == 303
    assert operator.post(f"/admin/instances/{lost.id}/repair").status_code == 303
    work()
    assert session.get(Hypervisor, cast.node.id, populate_existing=True).strangers == []
    shown = operator.get(page).text
    assert "Everything that runs there belongs to an instance" in shown
    assert "The host has every machine" in shown
