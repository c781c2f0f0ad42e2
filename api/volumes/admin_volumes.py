"""All customers' volumes, for operators."""

from api import kit
from api.volumes import admin
from panel.schemas.volumes import AdminVolumeOut, VolumeQuery
from panel.services import volumes

READ_PERMISSION, WRITE_PERMISSION = "admin:volumes:read", "admin:volumes:write"


@admin.get(
    "/volumes", op="list", can=READ_PERMISSION, query=VolumeQuery, out=kit.build_admin_page_schema(AdminVolumeOut)
)
def listing(query):
    """List everybody's volumes, newest first.

    `search` narrows the list to names.
    """
    return kit.paginate(volumes.listing(**query))


@admin.get("/volume/<volume_id>", op="get", can=READ_PERMISSION, out=AdminVolumeOut)
def show(volume_id):
    """Show a volume with its snapshots.

    Its status says whether it can be attached. 404 when there is no such volume.
    """
    return volumes.get(volume_id)


@admin.patch("/volume/<volume_id>/detach", op="detach", can=WRITE_PERMISSION, out=AdminVolumeOut)
def detach(volume_id):
    """Detach a volume.

    A running guest has to let it go. What is on it stays. 422 `volume_not_attached` when it is not attached; 409
    `suspended` or `task_running` for its instance.
    """
    kit.set_message("The volume is being detached.")
    return volumes.detach(volumes.get(volume_id), actor=kit.get_current_actor(), by_operator=True)


@admin.delete("/volume/<volume_id>", op="delete", can=WRITE_PERMISSION)
def delete(volume_id):
    """Delete a volume with its snapshots.

    It is detached first. What is on it is lost. Refused with 409 `task_running` while a snapshot of it is being worked
    on, and with the reasons for which the disks of its instance cannot be changed.
    """
    volumes.delete(volumes.get(volume_id), actor=kit.get_current_actor(), by_operator=True)
    kit.set_message("The volume is being deleted.")
