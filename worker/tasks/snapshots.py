"""Tasks of snapshots."""

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Snapshot
from panel.services import snapshots
from panel.services.docker_deployments import state_reports as docker_deployments
from worker.engine.registry import task_handler
from worker.nodes.base import Power
from worker.tasks.instances import get_instance, observe_power, power_on
from worker.tasks.machine_spec import build_spec


def find_snapshot(row):
    return session.get(Snapshot, row.arguments["snapshot_id"], populate_existing=True)


def on_create_failed(row, error):
    if snapshot := find_snapshot(row):
        snapshots.record_outcome(snapshot, "failed", error)


def on_change_failed(row, error):
    if snapshot := find_snapshot(row):
        snapshots.record_outcome(snapshot, "available", error)


def get_instance_snapshot(work):
    snapshot = find_snapshot(work.task)
    if snapshot is None:
        raise NotFound(message("The snapshot was deleted in the meantime."))
    return get_instance(work), snapshot


@task_handler("snapshot_create", on_failure=on_create_failed)
def create(work):
    instance, snapshot = get_instance_snapshot(work)
    work.undo("delete_snapshot", instance.id, snapshot.id)
    work.step(message("Taking the snapshot"), 20)
    work.node.create_snapshot(instance.id, snapshot.id, snapshot.vmstate)
    snapshots.record_outcome(snapshot, "available")


@task_handler("snapshot_rollback", on_failure=on_change_failed)
def rollback(work):
    """Revert the machine to the snapshot. May run twice, because changes after the snapshot are lost anyway."""
    instance, snapshot = get_instance_snapshot(work)
    memory = work.task.arguments["memory"]
    work.step(message("Rolling back to the snapshot"), 20)
    work.node.revert_snapshot(instance.id, snapshot.id, memory)
    work.node.define(build_spec(instance))
    power = observe_power(work)
    instance = get_instance(work)
    # Use the node's answer: reverting turns the machine off and on, and reports of that may reach the row late.
    if work.task.arguments["start"] and power is Power.off and not instance.suspended_reason:
        power_on(work, instance)
    snapshots.on_rolled_back(snapshot)
    docker_deployments.invalidate(instance)


@task_handler("snapshot_delete", on_failure=on_change_failed)
def delete(work):
    if find_snapshot(work.task) is None:
        return
    instance, snapshot = get_instance_snapshot(work)
    work.step(message("Deleting the snapshot"), 20)
    work.node.delete_snapshot(instance.id, snapshot.id)
    snapshots.on_deleted(snapshot)
