"""Everybody's volumes, for operators."""

from api import kit
from api.volumes import admin
from panel.schemas.volumes import AdminVolumeOut, VolumeQuery
from panel.services import volumes

READ, WRITE = "admin:volumes:read", "admin:volumes:write"


@admin.get("/volumes", op="list", can=READ, query=VolumeQuery, out=kit.rows(AdminVolumeOut))
def listing(query):
    """List everybody's volumes, newest first."""
    return kit.paginate(volumes.listing(**query))


@admin.get("/volume/<volume_id>", op="get", can=READ, out=AdminVolumeOut)
def show(volume_id):
    """Show a volume with its snapshots."""
    return volumes.get(volume_id)


@admin.patch("/volume/<volume_id>/detach", op="detach", can=WRITE, out=AdminVolumeOut)
def detach(volume_id):
    """Detach a volume. A running guest has to let it go."""
    kit.say("The volume is being detached.")
    return volumes.detach(volumes.get(volume_id), actor=kit.actor(), by_operator=True)


@admin.delete("/volume/<volume_id>", op="delete", can=WRITE)
def delete(volume_id):
    """Delete a volume with its snapshots. It is detached first."""
    volumes.delete(volumes.get(volume_id), actor=kit.actor(), by_operator=True)
    kit.say("The volume is being deleted.")
