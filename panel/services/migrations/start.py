"""Start migrations; cancel, repeat, revert and clean up after them."""

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Unavailable
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Hypervisor, Instance, Migration, Task
from panel.services import hypervisors, state_machine, tasks
from panel.services.instances import blockers, suspension
from panel.services.migrations.target_selection import ensure_target_fits, select_target

task_kind("migration_live", "Move while running")
task_kind("migration_cold", "Move while off")
task_kind("migration_cleanup", "Clean-up after a move")


def start(
    instance: Instance,
    *,
    actor: str,
    target: Hypervisor | None = None,
    live: bool | None = None,
    parent_task_id: str | None = None,
) -> Migration:
    """Migrate the machine to `target`, or to the hypervisor with the most room.

    A running guest runs on (`live`); `live=False` accepts only a machine that is off. Return the row; its task does the
    work. A refusal changes nothing.
    """
    state_machine.ensure_allowed(instance, "migrate", by_operator=True)
    blockers.ensure_movable(instance)
    instance = suspension.lock_instance(instance)
    is_on = instance.power == "on"
    if live is False and is_on:
        raise Conflict(
            message("The instance is running. Stop it first, or migrate it live."), reason="instance_running"
        )
    if live and not is_on:
        raise Conflict(message("The instance is stopped. Migrate it offline, or start it first."), reason="not_running")
    if instance.hypervisor.status != "up":
        raise Unavailable(message("Its hypervisor does not answer."), reason="hypervisor_unreachable")
    if target:
        ensure_target_fits(instance, target)
    host, storage = select_target(instance, target)
    row = Migration(
        instance_id=instance.id,
        instance_name=instance.name,
        source_id=instance.hypervisor_id,
        target_id=host.id,
        storage_id=storage.id,
        kind="live" if is_on else "cold",
        parent_task_id=parent_task_id,
    )
    session.add(row)
    session.flush()
    task = jobs.enqueue(
        f"migration_{row.kind}",
        "instance",
        instance,
        lock="exclusive",
        actor=actor,
        hypervisor_id=host.id,
        arguments={"migration_id": row.id},
    )
    row.task_id, instance.migrating = task.id, True
    session.flush()
    return row


def stop(row: Migration) -> Task:
    """Request the cancellation of a running migration. The machine stays on its hypervisor."""
    task = session.get(Task, row.task_id) if row.task_id else None
    if task is None or not task.open:
        raise Conflict(message("The migration has ended."), reason="not_cancellable")
    return tasks.cancel(task)


def restart(row: Migration, *, actor: str) -> Migration:
    """Start the same migration again, after it failed or was cancelled."""
    if row.status not in ("failed", "cancelled"):
        raise Conflict(message("The migration has not failed."))
    return start(get_instance(row), actor=actor, target=hypervisors.get(row.target_id, "hypervisor_id"))


def rollback(row: Migration, *, actor: str) -> Migration:
    """Migrate a moved machine back to its source."""
    instance = get_instance(row)
    if row.status != "completed" or instance.hypervisor_id != row.target_id:
        raise Conflict(message("The machine is not where this migration brought it."))
    return start(instance, actor=actor, target=hypervisors.get(row.source_id, "hypervisor_id"))


def get_instance(row: Migration) -> Instance:
    if row.instance is None:
        raise Conflict(message("The instance was destroyed in the meantime."))
    return row.instance


def enqueue_cleanup(row: Migration, *, actor: str) -> Task:
    """Enqueue the deletion of what a migration left on the source. Return the task."""
    if not row.undeleted_source_disks:
        raise Conflict(message("Nothing of this migration is left on the source."))
    source = hypervisors.get(row.source_id, "hypervisor_id")
    arguments = {"migration_id": row.id}
    return jobs.enqueue(
        "migration_cleanup",
        "hypervisor",
        source,
        lock="light",
        actor=actor,
        hypervisor_id=source.id,
        arguments=arguments,
    )
