"""Giving up a hypervisor that will not come back, with everything that was on it: it cannot be asked to remove it."""

from sqlalchemy import delete, func, or_, select, update

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.models import Instance, Migration, Storage, Task, Volume, VolumeSnapshot
from panel.models.tasks import OPEN_STATUSES
from panel.services import hypervisors, usage
from panel.services.instances import state_reports

HYPERVISOR_UP_MESSAGE = "The hypervisor answers. Move or destroy what is on it, and remove it as usual."
MIGRATION_RUNNING_MESSAGE = "A machine is being moved from it or to it. Wait until that has ended."
FORCE_REMOVED_MESSAGE = "The hypervisor was given up."


def contents(hypervisor):
    """How much is lost with it: `instances` and `volumes`."""
    machines = select(func.count()).where(Instance.hypervisor_id == hypervisor.id)
    disks = select(func.count()).select_from(Volume).join(Storage).where(Storage.hypervisor_id == hypervisor.id)
    return {"instances": session.scalar(machines), "volumes": session.scalar(disks)}


def force_remove(hypervisor, *, name, actor):
    """Removes the hypervisor and the rows of everything on it. Its name has to be said, because that cannot be undone.
    Refused with `hypervisor_up` while it answers, with `task_running` while a machine moves from it or to it."""
    session.refresh(hypervisor, with_for_update=True)
    if hypervisor.status == "up":
        raise Conflict(HYPERVISOR_UP_MESSAGE, reason="hypervisor_up")
    if name != hypervisor.name:
        raise Invalid(
            "This is not the name of the hypervisor. Nothing was removed.", name="Type the hypervisor's name."
        )
    ends = or_(Migration.source_id == hypervisor.id, Migration.target_id == hypervisor.id)
    if session.scalar(select(Migration.id).where(ends, Migration.status == "active").limit(1)):
        raise Conflict(MIGRATION_RUNNING_MESSAGE, reason="task_running")
    fail_tasks(hypervisor)
    for instance in session.scalars(select(Instance).where(Instance.hypervisor_id == hypervisor.id)):
        state_reports.on_destroyed(instance, actor=actor)
    session.flush()
    storages = [storage.id for storage in hypervisor.storages]
    session.execute(delete(VolumeSnapshot).where(VolumeSnapshot.storage_id.in_(storages)))
    for volume in session.scalars(select(Volume).where(Volume.storage_id.in_(storages))):
        usage.stop_metering(volume)
        session.delete(volume)
    session.flush()
    hypervisors.delete(hypervisor)


def fail_tasks(hypervisor):
    """Whoever has one of them finds that it is not its any more. There is no node left to take anything back on."""
    now = clock.now()
    ended = {"worker": None, "undo": [], "undo_left": False, "updated_at": now}
    failed = {"status": "failed", "error": FORCE_REMOVED_MESSAGE, "finished_at": now}
    mine = update(Task).where(Task.hypervisor_id == hypervisor.id).execution_options(synchronize_session="fetch")
    session.execute(mine.where(Task.status.in_(OPEN_STATUSES)).values(**ended, **failed))
    session.execute(mine.where(Task.undo_left).values(**ended))
