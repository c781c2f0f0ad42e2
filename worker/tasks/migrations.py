"""Moving a machine to another node. `work.node` is the target: what is begun there is what has to be taken back."""

import time
from dataclasses import replace

from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Migration, Storage, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import instances
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.engine.runner import TASK_WAIT_INTERVAL_SECONDS, Cancelled
from worker.nodes import base
from worker.nodes.base import Missing, NodeError, Power, Refused, Unreachable
from worker.sync import node_sync
from worker.tasks.instances import ensure_image, get_instance
from worker.tasks.machine_spec import build_spec, node_image, seed_name

MIGRATION_RETRY_INTERVAL_SECONDS = 5.0
"""Seconds between two questions to a node that was silent."""


def on_migration_failed(row, error):
    """The machine is where it was."""
    migration = session.get(Migration, row.arguments["migration_id"], populate_existing=True)
    if migration and migration.status == "active":
        cancelled = row.cancel_requested_at is not None
        migration.status, migration.error = "cancelled" if cancelled else "failed", error
        migration.finished_at = clock.now()
    for instance in state_reports.lock_instances(row.resource_id):
        instance.migrating = False


@task_handler("migration_live", on_failure=on_migration_failed)
@task_handler("migration_cold", on_failure=on_migration_failed)
def migrate(work):
    """Disks and media on the target, the move itself, then the rows. Whoever takes over from a worker that died finds
    out first where the machine is by now."""
    migration = session.get(Migration, work.task.arguments["migration_id"])
    instance, storage = get_instance(work), session.get(Storage, migration.storage_id or "")
    if storage is None or migration.source_id is None:
        raise NotFound("The target was removed meanwhile.")
    source = node_sync.connect_node(migration.source_id)
    left = [[disk.on.name, disk.name] for disk in instance.disks]
    left.append([instance.disks[0].on.name, seed_name(instance)])
    there = build_target_spec(instance, migration.target, storage.name)
    if not (work.task.attempt > 1 and has_arrived(work, source, instance.id, migration.kind)):
        prepare_target(work, source, instance, storage, there)
        work.step("Moving the machine", 30)
        try:
            source.move(there, work.node.node, work.report_progress)
        except (Unreachable, Cancelled):
            if not has_arrived(work, source, instance.id, migration.kind):
                raise
    migration.left_behind = delete_source_disks(work, source, left)
    for row in state_reports.lock_instances(instance.id):
        row.hypervisor_id, row.migrating = migration.target_id, False
        for disk in row.disks:
            disk.storage_id = storage.id
        state_reports.report_power(
            row, "on" if migration.kind == "live" else "off", at=clock.now(), actor=work.task.actor
        )
    migration.status, migration.finished_at = "completed", clock.now()


def build_target_spec(instance, target, pool):
    """The machine as the target is to have it."""
    here = build_spec(instance)
    moved = lambda disk: base.Disk(pool, disk.name, disk.size)  # noqa: E731
    return replace(
        here,
        disks=tuple(moved(disk) for disk in here.disks),
        nics=tuple(replace(nic, network=target.network) for nic in here.nics),
        media={slot: moved(medium) for slot, medium in here.media.items()},
    )


def prepare_target(work, source, instance, storage, there):
    """Everything that has to lie on the target before the machine comes."""
    work.step("Looking at both hypervisors", 2)
    work.node.ping()
    here = build_spec(instance)
    sizes = {}
    for pool in {disk.pool for disk in (*here.disks, *here.media.values())}:
        sizes |= {disk.name: disk.size for disk in source.disks(pool)}
    gone = [disk.name for disk in here.disks if disk.name not in sizes]
    if gone:
        raise Missing("A disk of the machine is not on its hypervisor.", ", ".join(gone))
    ensure_no_disk_replaced(work, instance, storage.name)
    names = [[disk.pool, disk.name] for disk in (*there.disks, *there.media.values())]
    work.undo("drop_arrival", instance.id, names, instance.name)
    if instance.image:
        ensure_image(work, instance.image, storage)
    work.step("Preparing its disks", 20)
    for number, disk in enumerate(there.disks):
        image = instance.image if number == 0 else None
        wanted = base.Disk(disk.pool, disk.name, sizes[disk.name])
        work.node.create_disk(wanted, image and node_image(image))
    for slot, medium in here.media.items():
        if medium.name in sizes:
            source.copy_media(medium, work.node.node, there.media[slot])


def ensure_no_disk_replaced(work, instance, pool):
    """Adopted disks have names that somebody else gave: a disk of the same name there may be somebody else's, too."""
    adopted = {disk.name for disk in instance.disks if not disk.name.startswith(f"{instance.name}-")}
    taken = adopted & {disk.name for disk in work.node.disks(pool)} if adopted else set()
    if taken:
        sentence = "The other hypervisor has a disk that is called like one of the machine's. It would be replaced."
        raise Refused(sentence, f"{pool} has {', '.join(sorted(taken))}")


def has_arrived(work, source, machine_id, kind):
    """Whether the machine is on the target, after nobody said so. Asks both until both have answered; then exactly one
    of them has the machine, and it is as it should be there."""
    while True:
        try:
            return settle_location(work.node, source, machine_id, kind)
        except Unreachable:
            work.update(stage="Waiting for an answer of both hypervisors")
            session.commit()
            time.sleep(MIGRATION_RETRY_INTERVAL_SECONDS)


def settle_location(target, source, machine_id, kind):
    here, there = find_power(source, machine_id), find_power(target, machine_id)
    if there is None:
        if here is None:
            raise NodeError("Neither hypervisor has the machine.", f"machine {machine_id}")
    elif here is None or (kind == "live" and there is Power.on and here is not Power.on):
        source.delete(machine_id)  # it stood still there, because the target had taken over
        if kind == "live":
            target.start(machine_id)
            target.resume(machine_id)
        else:
            target.power_off(machine_id)
        return True
    else:
        target.delete(machine_id)
    if here is Power.paused:
        (source.resume if kind == "live" else source.power_off)(machine_id)
    return False


def find_power(node, machine_id):
    return node_sync.find_power(node, machine_id)


def delete_source_disks(work, source, disks):
    """Deletes the machine's disks on the source. Gives those that could not be deleted: the machine has arrived, and
    that counts. It is too late to cancel."""
    work.update(stage="Removing its old disks", progress=95)
    session.commit()
    for number, (pool, name) in enumerate(disks):
        try:
            source.delete_disk(pool, name)
        except Missing:
            continue
        except NodeError:
            return disks[number:]
    return []


@task_handler("migration_cleanup")
def cleanup_source(work):
    """What a move left on its source, which answers by now."""
    migration = session.get(Migration, work.task.arguments["migration_id"])
    if migration is None or not migration.left_behind:
        return
    instance = instances.find_by_id(migration.instance_id)
    if instance is not None and instance.hypervisor_id == migration.source_id:
        raise NodeError("The machine is back on this hypervisor, and uses these disks.")
    left = delete_source_disks(work, work.node, migration.left_behind)
    if left:
        raise NodeError("The hypervisor did not delete all of it.")
    migration.left_behind = []


@task_handler("hypervisor_evacuate")
def evacuate(work):
    """Follows the moves of an evacuation until the last has ended."""
    work.step("Moving its machines", 1)
    mine = select(Migration.status, Task.status).outerjoin(Task, Task.id == Migration.task_id)
    mine = mine.where(Migration.parent_task_id == work.task.id)
    while True:
        rows = session.execute(mine).all()
        under_way = [task for _, task in rows if task in OPEN_STATUSES]
        ended = len(rows) - len(under_way)
        if not under_way:
            break
        work.update(stage=f"{ended} of {len(rows)} machines have moved", progress=1 + 98 * ended // len(rows))
        session.commit()
        work.check()
        time.sleep(TASK_WAIT_INTERVAL_SECONDS)
    failed = [status for status, _ in rows if status != "completed"]
    refused = work.task.arguments.get("refused", {})
    if failed or refused:
        detail = "; ".join(f"{name}: {why}" for name, why in refused.items()) or None
        raise NodeError(f"{len(failed) + len(refused)} of its machines could not be moved.", detail)
