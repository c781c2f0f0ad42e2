"""A lost answer and a killed worker at every changing node call of every task of a micro VM.

After the node recovers and the reaper and the periodic jobs ran, row and node agree, nothing is left over, and the
request can be repeated.
"""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Microvm, MicrovmImage, MicrovmSnapshot, Task
from panel.models.tasks import OPEN_STATUSES
from tests.microvms.task_cases import KINDS_TESTED_HERE, POOL_KINDS
from tests.support.simulated_sandbox import simulated_sandbox  # noqa: F401  (fixture)
from worker.nodes.base import Power
from worker.sync import node_sync
from worker.tasks import microvms as tasks

FILES, MACHINE = ["upload_media", "put_image"], ["create_disk", "ensure_sandbox_network", "define", "start"]
TASK_CASES = {
    "microvm_create": ([], [*FILES, *MACHINE]),
    "microvm_start": (["stop"], ["define", "start"]),
    "microvm_stop": ([], ["shutdown"]),
    "microvm_restart": ([], ["shutdown", "define", "start"]),
    "microvm_pause": ([], ["save"]),
    "microvm_resume": (["pause"], ["ensure_sandbox_network", "start"]),
    "microvm_network_apply": ([], ["update_nics"]),
    "microvm_destroy": ([], ["delete", "delete_disk"]),
    "microvm_snapshot": ([], ["create_snapshot"]),
    "microvm_rollback": (["snapshot", "stop"], ["revert_snapshot"]),
    "microvm_snapshot_delete": (["snapshot"], ["delete_snapshot"]),
}
"""The requests before a task of that kind, and its changing node calls."""


@pytest.fixture(autouse=True)
def internet_access(profile):
    """Give the micro VMs a network interface."""
    profile.allows_internet_access = True
    session.commit()


@pytest.fixture
def send_request(call_api, microvm_body):
    """Return a function that sends the request for an action on the micro VM. It returns the answer."""

    def send(action, microvm=None):
        path = f"vm/{microvm.id}" if microvm else ""
        snapshot = session.query(MicrovmSnapshot.id).first()
        return {
            "create": lambda: call_api("POST", "vms", **microvm_body),
            "network_apply": lambda: call_api("PATCH", path, deny_out=["8.8.8.8"]),
            "destroy": lambda: call_api("DELETE", path),
            "snapshot": lambda: call_api("POST", f"{path}/snapshots"),
            "snapshot_delete": lambda: call_api("DELETE", f"{path}/snapshot/{snapshot[0]}"),
            "rollback": lambda: call_api("POST", f"{path}/rollback", snapshot_id=snapshot[0]),
        }.get(action, lambda: call_api("POST", f"{path}/{action}"))()

    return send


def test_cases_cover_every_kind():
    assert TASK_CASES.keys() | {"microvm_boot_check", "microvm_image_build", *POOL_KINDS} == KINDS_TESTED_HERE


def recover(cast, node, manual_reaper, run_tasks):
    node.clear()
    node.ping()
    manual_reaper.advance(100)
    run_tasks()
    for microvm in session.query(Microvm).filter_by(state="destroying", ended_at=None):
        microvm.next_destroy_at = clock.now()
    session.commit()
    tasks.retry_destroys()
    run_tasks()
    node_sync.reconcile(cast.node.id)
    session.expire_all()


def assert_consistent(node, names_on_node):
    left = session.query(Task).filter(Task.status.in_(OPEN_STATUSES) | Task.rollback_pending)
    assert [(task.kind, task.status, task.rollback_steps) for task in left] == []
    machines, disks = names_on_node()
    live = session.query(Microvm).filter_by(ended_at=None).all()
    with_machine = [microvm for microvm in live if microvm.state != "failed"]
    assert machines == {microvm.id for microvm in with_machine}
    assert disks == {microvm.disk_name for microvm in with_machine}
    for microvm in with_machine:
        is_on = node.power(microvm.id) is Power.on
        state = "running" if is_on else "paused" if node.has_saved_state(microvm.id) else "stopped"
        assert microvm.state == state


@pytest.mark.parametrize("fault", ["lost-answer", "killed"])
@pytest.mark.parametrize(("kind", "call"), [(kind, call) for kind, (_, calls) in TASK_CASES.items() for call in calls])
def test_task_survives_fault_at_every_node_call(
    send_request, create_microvm, cast, node, run_tasks, manual_reaper, kill_worker_at, names_on_node, kind, call, fault
):
    microvm = None if kind == "microvm_create" else create_microvm()
    for action in TASK_CASES[kind][0]:
        assert send_request(action, microvm).status_code == 200
        run_tasks()
    action = kind.removeprefix("microvm_")
    answer = send_request(action, microvm)
    assert answer.status_code == 200, answer.json
    task = session.query(Task).filter_by(kind=kind).one()
    if fault == "killed":
        kill_worker_at(task, call)
    else:
        node.fault(call, fault, 1)
        run_tasks()
    recover(cast, node, manual_reaper, run_tasks)
    assert_consistent(node, names_on_node)
    task = session.get(Task, task.id, populate_existing=True)
    if task.status == "failed" and kind not in ("microvm_create", "microvm_destroy"):
        answer = send_request(action, microvm)
        assert answer.status_code == 200 or answer.json["reason"].startswith(("already_", "not_")), answer.json
        run_tasks()
        assert_consistent(node, names_on_node)


def test_failed_create_leaves_nothing_and_is_destroyed(send_request, run_tasks, node, names_on_node, call_api):
    node.fault("start", "full", 1)
    created = send_request("create").json["vm"]
    run_tasks()
    row = call_api("GET", f"vm/{created['id']}").json["vm"]
    assert (row["state"], bool(row["error"]), names_on_node()) == ("failed", True, (set(), set()))
    assert call_api("DELETE", f"vm/{created['id']}").status_code == 200
    run_tasks()
    assert call_api("GET", "vms").json["total"] == 0


def test_files_are_copied_once(create_microvm, node, monkeypatch):
    uploads = []
    original = type(node).upload_media

    def record(self, pool, name, *args, **options):
        uploads.append(options)
        return original(self, pool, name, *args, **options)

    monkeypatch.setattr(type(node), "upload_media", record)
    for _ in range(3):
        create_microvm()
    assert uploads == [{"is_kernel": True}] * 2


BUILD_CALLS = [*MACHINE, "open_channel", "shutdown", "copy_disk", "delete", "delete_disk", "read_disk"]


@pytest.mark.parametrize("fault", ["lost-answer", "killed"])
@pytest.mark.parametrize("call", BUILD_CALLS)
def test_image_build_survives_fault_at_every_node_call(
    call_api, image, profile, cast, node, run_tasks, manual_reaper, kill_worker_at, names_on_node,
    simulated_sandbox, call, fault,
):  # fmt: skip
    body = {"name": "built", "image_id": image.id, "commands": ["true"]}
    image_id = call_api("POST", "images", **body).json["image"]["id"]
    task = session.query(Task).filter_by(kind="microvm_image_build").one()
    if fault == "killed":
        kill_worker_at(task, call)
        assert names_on_node() != (set(), set())
    else:
        node.fault(call, fault, 1)
        run_tasks()
    recover(cast, node, manual_reaper, run_tasks)
    assert_consistent(node, names_on_node)
    row = session.get(MicrovmImage, image_id, populate_existing=True)
    if row.status == "failed":
        assert fault != "killed"
        assert call_api("POST", f"image/{image_id}/build").status_code == 202
        run_tasks()
        assert_consistent(node, names_on_node)
    assert session.get(MicrovmImage, image_id, populate_existing=True).status == "available"
