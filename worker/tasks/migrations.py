"""Migrating a machine to another node. `work.node` is the target, where rollback steps run."""

import time
from dataclasses import replace

from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message, plural_message
from panel.models import Migration, Storage, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import instances
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.engine.runner import TASK_WAIT_INTERVAL_SECONDS, Cancelled
from worker.nodes import base
from worker.nodes.base import NodeError, NotOnNode, Power, Refused, Unreachable
from worker.sync import node_sync
from worker.tasks.instances import ensure_image, get_instance
from worker.tasks.machine_spec import build_node_image, build_spec, get_seed_name

MIGRATION_RETRY_INTERVAL_SECONDS = 5.0
"""Seconds between two calls to a node that does not answer."""


def on_migration_failed(row, error):
    """End the migration's row. The instance stays where it is."""
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
    """Prepare disks and media on the target, migrate the machine, then change the rows.

    An attempt after a lost worker first finds out which node has the machine.
    """
    migration = session.get(Migration, work.task.arguments["migration_id"])
    instance, storage = get_instance(work), session.get(Storage, migration.storage_id or "")
    if storage is None or migration.source_id is None:
        raise NotFound(message("The target was deleted in the meantime."))
    source = node_sync.connect_node(migration.source_id)
    source_disks = [[disk.storage.name, disk.name] for disk in instance.disks]
    source_disks.append([instance.disks[0].storage.name, get_seed_name(instance)])
    target_spec = build_target_spec(instance, migration.target, storage.name)
    if not (work.task.attempt > 1 and has_arrived(work, source, instance.id, migration.kind)):
        prepare_target(work, source, instance, storage, target_spec)
        work.step(message("Migrating the machine"), 30)
        try:
            source.migrate(target_spec, work.node.node, work.report_progress)
        except (Unreachable, Cancelled):
            if not has_arrived(work, source, instance.id, migration.kind):
                raise
    migration.undeleted_source_disks = delete_source_disks(work, source, source_disks)
    for row in state_reports.lock_instances(instance.id):
        row.hypervisor_id, row.migrating = migration.target_id, False
        for disk in row.disks:
            disk.storage_id = storage.id
        state_reports.report_power(
            row, "on" if migration.kind == "live" else "off", at=clock.now(), actor=work.task.actor
        )
    migration.status, migration.finished_at = "completed", clock.now()


def build_target_spec(instance, target, pool):
    """Return the machine spec for the target: same machine, with the target's pool and network."""
    spec = build_spec(instance)
    on_target = lambda disk: base.Disk(pool, disk.name, disk.size)  # noqa: E731
    return replace(
        spec,
        disks=tuple(on_target(disk) for disk in spec.disks),
        nics=tuple(replace(nic, network=target.network) for nic in spec.nics),
        media={slot: on_target(media) for slot, media in spec.media.items()},
    )


def prepare_target(work, source, instance, storage, target_spec):
    """Create on the target everything that the machine needs there."""
    work.step(message("Checking both hypervisors"), 2)
    work.node.ping()
    spec = build_spec(instance)
    sizes = {}
    for pool in {disk.pool for disk in (*spec.disks, *spec.media.values())}:
        sizes |= {disk.name: disk.size for disk in source.disks(pool)}
    missing = [disk.name for disk in spec.disks if disk.name not in sizes]
    if missing:
        raise NotOnNode(message("A disk of the machine is not on its hypervisor."), ", ".join(missing))
    ensure_no_disk_replaced(work, instance, storage.name)
    names = [[disk.pool, disk.name] for disk in (*target_spec.disks, *target_spec.media.values())]
    work.undo("clean_up_target", instance.id, names, instance.name)
    if instance.image:
        ensure_image(work, instance.image, storage)
    work.step(message("Preparing its disks"), 20)
    for number, disk in enumerate(target_spec.disks):
        image = instance.image if number == 0 else None
        target_disk = base.Disk(disk.pool, disk.name, sizes[disk.name])
        work.node.create_disk(target_disk, image and build_node_image(image))
    for slot, media in spec.media.items():
        if media.name in sizes:
            source.copy_media(media, work.node.node, target_spec.media[slot])


def ensure_no_disk_replaced(work, instance, pool):
    """Raise when a disk on the target has the name of an imported disk.

    The panel did not choose the names of imported disks, so a disk of the same name may belong to another machine.
    """
    imported = {disk.name for disk in instance.disks if not disk.name.startswith(f"{instance.name}-")}
    conflicting = imported & {disk.name for disk in work.node.disks(pool)} if imported else set()
    if conflicting:
        sentence = message(
            "The other hypervisor has a disk that is called like one of the machine's. It would be replaced."
        )
        raise Refused(sentence, f"{pool} has {', '.join(sorted(conflicting))}")


def has_arrived(work, source, machine_id, kind):
    """Return whether the machine is on the target, after an unknown outcome.

    Retries until both nodes have answered. Then exactly one of them has the machine, in the right state.
    """
    while True:
        try:
            return resolve_machine_location(work.node, source, machine_id, kind)
        except Unreachable:
            work.update(stage=message("Waiting for an answer of both hypervisors"))
            session.commit()
            time.sleep(MIGRATION_RETRY_INTERVAL_SECONDS)


def resolve_machine_location(target, source, machine_id, kind):
    source_power, target_power = find_power(source, machine_id), find_power(target, machine_id)
    if target_power is None:
        if source_power is None:
            raise NodeError(message("Neither hypervisor has the machine."), f"machine {machine_id}")
    elif source_power is None or (kind == "live" and target_power is Power.on and source_power is not Power.on):
        source.delete(machine_id)  # paused on the source, because the target has taken over
        if kind == "live":
            target.start(machine_id)
            target.resume(machine_id)
        else:
            target.power_off(machine_id)
        return True
    else:
        target.delete(machine_id)
    if source_power is Power.paused:
        (source.resume if kind == "live" else source.power_off)(machine_id)
    return False


def find_power(node, machine_id):
    return node_sync.find_power(node, machine_id)


def delete_source_disks(work, source, disks):
    """Delete the machine's disks on the source and return those that could not be deleted.

    Does not fail, because the machine has arrived. The task can no longer be cancelled.
    """
    work.update(stage=message("Removing its old disks"), progress=95)
    session.commit()
    for number, (pool, name) in enumerate(disks):
        try:
            source.delete_disk(pool, name)
        except NotOnNode:
            continue
        except NodeError:
            return disks[number:]
    return []


@task_handler("migration_cleanup")
def cleanup_source(work):
    """Delete disks that a migration left on its source, once the source answers."""
    migration = session.get(Migration, work.task.arguments["migration_id"])
    if migration is None or not migration.undeleted_source_disks:
        return
    instance = instances.find_by_id(migration.instance_id)
    if instance is not None and instance.hypervisor_id == migration.source_id:
        raise NodeError(message("The machine is back on this hypervisor, and uses these disks."))
    remaining = delete_source_disks(work, work.node, migration.undeleted_source_disks)
    if remaining:
        raise NodeError(message("The hypervisor did not delete everything."))
    migration.undeleted_source_disks = []


@task_handler("hypervisor_evacuate")
def evacuate(work):
    """Report the progress of an evacuation's migrations until all have ended. Raise NodeError when some failed."""
    work.step(message("Migrating its machines"), 1)
    query = select(Migration.status, Task.status).outerjoin(Task, Task.id == Migration.task_id)
    query = query.where(Migration.parent_task_id == work.task.id)
    while True:
        rows = session.execute(query).all()
        open_statuses = [task for _, task in rows if task in OPEN_STATUSES]
        ended_count = len(rows) - len(open_statuses)
        if not open_statuses:
            break
        work.update(
            stage=message("{moved} of {total} machines have moved", moved=ended_count, total=len(rows)),
            progress=1 + 98 * ended_count // len(rows),
        )
        session.commit()
        work.check()
        time.sleep(TASK_WAIT_INTERVAL_SECONDS)
    failed = [status for status, _ in rows if status != "completed"]
    refused = work.task.arguments.get("refused", {})
    if failed or refused:
        detail = "; ".join(f"{name}: {reason}" for name, reason in refused.items()) or None
        raise NodeError(
            plural_message(
                "{count} of its machines could not be moved.",
                "{count} of its machines could not be moved.",
                count=len(failed) + len(refused),
            ),
            detail,
        )
