"""What holds the disks of an instance as they are: it has to be ended before they are replaced, copied or moved."""

from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Rescue
from panel.services import forges, image_captures, snapshots
from panel.services.state_machine import WORDS

RESCUE = WORDS["rescue_active"]
VOLUMES = "The instance has volumes or detached disks, which stay on their hypervisor. Detach or delete them first."
MEDIA = "There is an ISO in one of its drives. Unmount it first."
PENDING = "A change of plan waits for the next start. Restart the instance first."


def refuse_held(instance):
    """For what replaces the disks, or reads them as a whole: live sessions, snapshots and the rescue system."""
    forges.refuse_while_active(instance)
    snapshots.refuse_while_kept(instance)
    if session.get(Rescue, instance.id):
        raise Conflict(RESCUE, reason="rescue_active")


def refuse_tied(instance):
    """For what takes the machine to another hypervisor: also what would be left behind."""
    refuse_held(instance)
    image_captures.refuse_while_open(instance)
    if instance.volumes or not all(disk.attached for disk in instance.disks):
        raise Conflict(VOLUMES, reason="has_volumes")
    if instance.iso_id or instance.secondary_iso_id:
        raise Conflict(MEDIA, reason="has_media")
    if instance.power == "on" and instance.started_ram is not None:
        raise Conflict(PENDING, reason="change_pending")
