"""Tasks of micro VM snapshots: take, roll back, delete. Each may run twice."""

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.services.microvms import snapshots
from worker.engine.registry import task_handler
from worker.nodes.base import Power
from worker.tasks.microvms import get_microvm, notify_set_clock, on_action_failed, record_state


def get_snapshot(work):
    snapshot = snapshots.find_by_id(work.task.arguments["snapshot_id"])
    if snapshot is None:
        raise NotFound(message("The snapshot was deleted in the meantime."))
    return snapshot


def on_create_failed(row, error):
    if snapshot := snapshots.find_by_id(row.arguments["snapshot_id"]):
        snapshot.status, snapshot.error = "failed", error


def on_change_failed(row, error):
    if snapshot := snapshots.find_by_id(row.arguments["snapshot_id"]):
        snapshot.status, snapshot.error = "available", error


def on_rollback_failed(row, error):
    on_change_failed(row, error)
    on_action_failed(row, error)


@task_handler("microvm_snapshot", on_failure=on_create_failed)
def create(work):
    microvm, snapshot = get_microvm(work), get_snapshot(work)
    work.undo("delete_snapshot", microvm.id, snapshot.id)
    work.step(message("Taking the snapshot"), 20)
    work.node.create_snapshot(microvm.id, snapshot.id, snapshot.has_memory)
    snapshot.status, snapshot.error = "available", None


@task_handler("microvm_rollback", on_failure=on_rollback_failed)
def roll_back(work):
    """Revert the machine to the snapshot. May run twice, because changes after the snapshot are lost anyway."""
    microvm, snapshot = get_microvm(work), get_snapshot(work)
    work.step(message("Rolling back to the snapshot"), 20)
    work.node.revert_snapshot(microvm.id, snapshot.id, snapshot.has_memory)
    is_running_after = work.task.arguments["start"]
    if is_running_after and work.node.power(microvm.id) is Power.off:
        work.step(message("Starting"), 70)
        work.node.start(microvm.id)
    record_state(work, "running" if is_running_after else "stopped")
    snapshot.status, snapshot.error = "available", None
    if snapshot.has_memory:
        notify_set_clock(microvm.id)


@task_handler("microvm_snapshot_delete", on_failure=on_change_failed)
def delete(work):
    snapshot = snapshots.find_by_id(work.task.arguments["snapshot_id"])
    if snapshot is None:
        return
    microvm = get_microvm(work)
    work.step(message("Deleting the snapshot"), 20)
    work.node.delete_snapshot(microvm.id, snapshot.id)
    session.delete(snapshot)
