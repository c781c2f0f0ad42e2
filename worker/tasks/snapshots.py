"""What the tasks of snapshots do on the node."""

from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Snapshot
from panel.services import snapshots
from panel.services.docker_deployments import state_reports as docker_deployments
from worker.engine.registry import task
from worker.nodes.base import Power
from worker.tasks.instances import known, observe_power, turn_on
from worker.tasks.machine_spec import machine


def asked(row):
    return session.get(Snapshot, row.arguments["snapshot_id"], populate_existing=True)


def failed(row, error):
    if snapshot := asked(row):
        snapshots.settled(snapshot, "failed", error)


def stays(row, error):
    if snapshot := asked(row):
        snapshots.settled(snapshot, "available", error)


def there(work):
    snapshot = asked(work.task)
    if snapshot is None:
        raise NotFound("The snapshot was deleted meanwhile.")
    return known(work), snapshot


@task("snapshot_create", ended_badly=failed)
def create(work):
    instance, snapshot = there(work)
    work.undo("delete_snapshot", instance.id, snapshot.id)
    work.step("Taking the snapshot", 20)
    work.node.take_snapshot(instance.id, snapshot.id, snapshot.vmstate)
    snapshots.settled(snapshot, "available")


@task("snapshot_rollback", ended_badly=stays)
def rollback(work):
    """Returning twice is as good as once: nothing of what came after the snapshot is to be kept."""
    instance, snapshot = there(work)
    memory = work.task.arguments["memory"]
    work.step("Returning to the snapshot", 20)
    work.node.revert_snapshot(instance.id, snapshot.id, memory)
    work.node.define(machine(instance))
    power = observe_power(work)
    instance = known(work)
    # The row may say otherwise: reverting turns the machine off and on, and reports of that come when they come.
    if work.task.arguments["start"] and power is Power.off and not instance.suspended_reason:
        turn_on(work, instance)
    snapshots.returned_to(snapshot)
    docker_deployments.look_anew(instance)


@task("snapshot_delete", ended_badly=stays)
def delete(work):
    if asked(work.task) is None:
        return
    instance, snapshot = there(work)
    work.step("Deleting the snapshot", 20)
    work.node.delete_snapshot(instance.id, snapshot.id)
    snapshots.deleted(snapshot)
