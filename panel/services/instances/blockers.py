"""What uses the disks of an instance: it has to be ended before they are replaced, copied or moved."""

from panel.core.db import session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import Instance, Rescue
from panel.services import forges, image_captures, snapshots
from panel.services.state_machine import make_problem

VOLUMES_STAY_MESSAGE = message(
    "The instance has volumes or detached disks, which stay on their hypervisor. Detach or delete them first."
)
MEDIA_MOUNTED_MESSAGE = message("An ISO is mounted in one of its drives. Unmount it first.")
PLAN_CHANGE_PENDING_MESSAGE = message("A plan change takes effect at the next start. Restart the instance first.")


def ensure_disks_free(instance: Instance) -> None:
    """Raise during live sessions and rescue, and when there are snapshots: for actions that replace or read whole
    disks."""
    forges.ensure_not_active(instance)
    snapshots.ensure_no_snapshots(instance)
    if session.get(Rescue, instance.id):
        raise make_problem("rescue_active")


def ensure_movable(instance: Instance) -> None:
    """Raise when the machine cannot go to another hypervisor: in addition, when it uses something that would stay
    behind."""
    ensure_disks_free(instance)
    image_captures.ensure_no_open_copy(instance)
    if instance.volumes or not all(disk.attached for disk in instance.disks):
        raise Conflict(VOLUMES_STAY_MESSAGE, reason="has_volumes")
    if instance.iso_id or instance.secondary_iso_id:
        raise Conflict(MEDIA_MOUNTED_MESSAGE, reason="has_media")
    if instance.power == "on" and instance.started_ram is not None:
        raise Conflict(PLAN_CHANGE_PENDING_MESSAGE, reason="change_pending")
