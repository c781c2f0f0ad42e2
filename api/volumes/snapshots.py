"""Snapshots of volumes, in both dialects."""

from marshmallow import fields

from api import kit
from api.volumes import admin, user
from api.volumes.customer import MANAGE_PERMISSION, VOLUME_PATH, get_own_volume
from panel.schemas.base import Out, describe
from panel.schemas.volumes import EXAMPLE_ID, VolumeRestore, VolumeSnapshotIn
from panel.services import volumes

SNAPSHOT_PATH = f"{VOLUME_PATH}/snapshot/<snapshot_id>"
ADMIN_PATH = "/volume/<volume_id>/snapshot"
WRITE_PERMISSION = "admin:volumes:write"


class QueueOut(Out):
    """A queued task."""

    id = fields.String(**describe("The task.", EXAMPLE_ID))
    operation = fields.String(**describe("Kind of the task.", "volume_snapshot"))
    source_id = fields.String(**describe("The volume, snapshot or backup.", EXAMPLE_ID))
    status = fields.String(**describe("Status of the task.", "queued"))


QUEUED_ANSWER = kit.build_result_schema(queue=fields.Nested(QueueOut, **describe("The task.")))
QUEUE_ANSWER = kit.Schema.from_dict({"queue": fields.Nested(QueueOut, **describe("The task."))}, name="VolumeWork")


def describe_work(task, source_id):
    return {"id": task.id, "operation": task.kind, "source_id": source_id, "status": task.status}


def create_snapshot(volume, body):
    _, task = volumes.create_snapshot(volume, actor=kit.get_current_actor(), **body)
    return {"queue": describe_work(task, volume.id)}


def delete_snapshot(snapshot):
    return {"queue": describe_work(volumes.delete_snapshot(snapshot, actor=kit.get_current_actor()), snapshot.id)}


def restore_snapshot(snapshot, account, body):
    task = volumes.restore(snapshot, account=account, actor=kit.get_current_actor(), **body)
    return {"queue": describe_work(task, snapshot.id)}


@user.post(
    f"{VOLUME_PATH}/snapshot",
    op="snapshot_create",
    can=MANAGE_PERMISSION,
    body=VolumeSnapshotIn,
    out=QUEUED_ANSWER,
    billed=True,
)
def create(body, volume_id):
    """Create a snapshot of a volume.

    The volume can be in use. The snapshot is a full copy and is listed in the volume's `snapshots`: poll it until its
    status is `available` or `failed`.
    """
    return {"message": "Snapshot requested.", **create_snapshot(get_own_volume(volume_id), body)}


@user.delete(SNAPSHOT_PATH, op="snapshot_delete", can=MANAGE_PERMISSION, out=QUEUED_ANSWER, billed=True)
def delete(volume_id, snapshot_id):
    """Delete a snapshot of a volume."""
    snapshot = volumes.get_snapshot(get_own_volume(volume_id), snapshot_id)
    return {"message": "Deletion of the snapshot requested.", **delete_snapshot(snapshot)}


@user.post(
    f"{SNAPSHOT_PATH}/restore",
    op="snapshot_restore",
    can=MANAGE_PERMISSION,
    body=VolumeRestore,
    out=QUEUED_ANSWER,
    billed=True,
)
def restore(body, volume_id, snapshot_id):
    """Restore a snapshot to its volume or to a new volume.

    `in_place` requires a detached volume; its data is replaced once the copy is complete. `new_volume` requires
    `volume_plan_id`, not smaller than the snapshot, and `hypervisor_group_id`, the location of the volume.
    """
    snapshot = volumes.get_snapshot(get_own_volume(volume_id), snapshot_id)
    return {"message": "Restore requested.", **restore_snapshot(snapshot, kit.get_current_access(), body)}


@admin.post(ADMIN_PATH, op="snapshot_create", can=WRITE_PERMISSION, body=VolumeSnapshotIn, out=QUEUE_ANSWER)
def admin_create(body, volume_id):
    """Create a snapshot of a volume.

    A task copies the volume; the snapshot can be used once its status is `available`. Returns 422
    `volume_not_available` while another task works on the volume, `snapshot_limit`, `storage_not_sufficient`, and 422
    under `name` if the name is already used.
    """
    return create_snapshot(volumes.get(volume_id), body)


@admin.delete(f"{ADMIN_PATH}/<snapshot_id>", op="snapshot_delete", can=WRITE_PERMISSION, out=QUEUE_ANSWER)
def admin_delete(volume_id, snapshot_id):
    """Delete a snapshot of a volume.

    Volumes created from it are not affected. Returns 409 `task_running` while a task uses the snapshot.
    """
    return delete_snapshot(volumes.get_snapshot(volumes.get(volume_id), snapshot_id))


@admin.post(
    f"{ADMIN_PATH}/<snapshot_id>/restore",
    op="snapshot_restore",
    can=WRITE_PERMISSION,
    body=VolumeRestore,
    out=QUEUE_ANSWER,
)
def admin_restore(body, volume_id, snapshot_id):
    """Restore a snapshot to its volume or to a new volume of the same owner.

    To restore in place, the volume must be detached (422 under `mode`); everything written since the snapshot is lost.
    A new volume requires a plan and a location. Returns 409 `snapshot_not_available` or `task_running`, and 422
    `storage_not_sufficient`.
    """
    volume = volumes.get(volume_id)
    return restore_snapshot(volumes.get_snapshot(volume, snapshot_id), volume.account, body)
