"""Force-removing a hypervisor that will not come back, with everything on it. The node cannot be contacted any more."""

from typing import Any

from sqlalchemy import delete, func, or_, select, update

from panel.core import clock
from panel.core.db import refresh_with_lock, session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import (
    BackupFileSession,
    BackupRestoreTest,
    Hypervisor,
    Instance,
    Microvm,
    MicrovmPoolMember,
    Migration,
    Storage,
    Task,
    Volume,
    VolumeSnapshot,
)
from panel.models.tasks import OPEN_STATUSES
from panel.services import hypervisors, usage
from panel.services.instances import state_reports
from panel.services.microvms import image_builds
from panel.services.microvms import state_reports as microvm_reports

HYPERVISOR_UP_MESSAGE = message("The hypervisor answers. Move or destroy what is on it, and remove it as usual.")
MIGRATION_RUNNING_MESSAGE = message("A machine is being migrated from or to it. Try again when that has finished.")
FORCE_REMOVED_MESSAGE = message("The hypervisor was removed by force.")


def count_contents(hypervisor: Hypervisor) -> dict[str, int]:
    """Return how many `instances` and `volumes` would be lost with it."""
    machines = select(func.count()).where(Instance.hypervisor_id == hypervisor.id)
    disks = select(func.count()).select_from(Volume).join(Storage).where(Storage.hypervisor_id == hypervisor.id)
    return {"instances": session.scalars(machines).one(), "volumes": session.scalars(disks).one()}


def force_remove(hypervisor: Hypervisor, *, name: str, actor: str) -> None:
    """Delete the hypervisor and the rows of everything on it. `name` must be its name, as a confirmation. Raise
    `hypervisor_up` while it answers, `task_running` while a machine migrates from it or to it."""
    refresh_with_lock(hypervisor)
    if hypervisor.status == "up":
        raise Conflict(HYPERVISOR_UP_MESSAGE, reason="hypervisor_up")
    if name != hypervisor.name:
        raise Invalid(
            message("This is not the name of the hypervisor. Nothing was removed."),
            name=message("Type the hypervisor's name."),
        )
    is_end = or_(Migration.source_id == hypervisor.id, Migration.target_id == hypervisor.id)
    if session.scalar(select(Migration.id).where(is_end, Migration.status == "active").limit(1)):
        raise Conflict(MIGRATION_RUNNING_MESSAGE, reason="task_running")
    fail_tasks(hypervisor)
    for instance in session.scalars(select(Instance).where(Instance.hypervisor_id == hypervisor.id)):
        state_reports.on_destroyed(instance, actor=actor)
    for microvm in session.scalars(
        select(Microvm).where(Microvm.hypervisor_id == hypervisor.id, Microvm.ended_at.is_(None))
    ):
        microvm_reports.on_destroyed(microvm)
    image_builds.fail_all(hypervisor, FORCE_REMOVED_MESSAGE)
    for model in (MicrovmPoolMember, BackupFileSession, BackupRestoreTest):
        session.execute(delete(model).where(model.hypervisor_id == hypervisor.id))
    session.flush()
    storages = [storage.id for storage in hypervisor.storages]
    session.execute(delete(VolumeSnapshot).where(VolumeSnapshot.storage_id.in_(storages)))
    for volume in session.scalars(select(Volume).where(Volume.storage_id.in_(storages))):
        usage.stop_metering(volume)
        session.delete(volume)
    session.flush()
    hypervisors.delete(hypervisor)


def fail_tasks(hypervisor: Hypervisor) -> None:
    """Fail its open tasks. Their workers lose the lease and stop. Nothing is rolled back, because the node is gone."""
    now = clock.now()
    released: dict[str, Any] = {"worker": None, "rollback_steps": [], "rollback_pending": False, "updated_at": now}
    failed = {"status": "failed", "error": FORCE_REMOVED_MESSAGE, "finished_at": now}
    query = update(Task).where(Task.hypervisor_id == hypervisor.id).execution_options(synchronize_session="fetch")
    session.execute(query.where(Task.status.in_(OPEN_STATUSES)).values(**released, **failed))
    session.execute(query.where(Task.rollback_pending).values(**released))
