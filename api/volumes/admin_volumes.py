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
    """List the volumes of all users, newest first.

    `search` matches names.
    """
    return kit.paginate(volumes.listing(**query))


@admin.get("/volume/<volume_id>", op="get", can=READ_PERMISSION, out=AdminVolumeOut)
def show(volume_id):
    """Get a volume with its snapshots and backups.

    A volume can be attached while its status is `available`. Returns 404 if the volume does not exist.
    """
    return volumes.get(volume_id)


@admin.patch("/volume/<volume_id>/detach", op="detach", can=WRITE_PERMISSION, out=AdminVolumeOut)
def detach(volume_id):
    """Detach a volume.

    A running guest must release it. The data is kept. Returns 422 `volume_not_attached` if it is not attached, and 409
    `suspended` or `task_running` because of its instance.
    """
    kit.set_message("Detachment of the volume requested.")
    return volumes.detach(volumes.get(volume_id), actor=kit.get_current_actor(), by_operator=True)


@admin.delete("/volume/<volume_id>", op="delete", can=WRITE_PERMISSION)
def delete(volume_id):
    """Delete a volume with its snapshots.

    It is detached first. Its data is lost, except for its backups. Returns 409 `task_running` while a snapshot task is
    in progress, and the reasons for which the disks of its instance cannot be changed.
    """
    volumes.delete(volumes.get(volume_id), actor=kit.get_current_actor(), by_operator=True)
    kit.set_message("Deletion of the volume requested.")
