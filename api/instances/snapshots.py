"""Snapshots of an instance."""

from marshmallow import fields

from api import kit
from api.instances import user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from panel.schemas.base import describe
from panel.schemas.snapshots import RollbackIn, SnapName, SnapshotIn, SnapshotOut
from panel.services import snapshots

SNAPSHOT_PATH = "/instance/<instance_id>/snapshot"
SNAPSHOT_LIST_RESPONSE = kit.Done.from_dict(
    {"snapshots": fields.List(fields.Nested(SnapshotOut), **describe("Oldest first."))}, name="Snapshots"
)


@user.get(f"{SNAPSHOT_PATH}s", op="snapshots", can="instances.view", out=SNAPSHOT_LIST_RESPONSE)
def listing(instance_id):
    """List the snapshots of an instance."""
    return {"success": True, "message": None, "snapshots": snapshots.listing(get_own_instance(instance_id))}


@user.post(
    SNAPSHOT_PATH,
    op="snapshot_create",
    can="instances.manage",
    body=SnapshotIn,
    out=kit.build_result_schema(snapshot=fields.Nested(SnapshotOut, **describe("The snapshot.")), task_id=TASK_ID),
)
def create(body, instance_id):
    """Take a snapshot of all disks and, with `vmstate`, of the memory of a running guest.

    While there are snapshots the instance's disks are not grown, attached or detached. Refused with 409: `suspended`,
    `task_running`, `not_deployed`, `already_active` (a live session), and with 422 `snapshot_limit`.
    """
    snapshot, task = snapshots.create(get_own_instance(instance_id), actor=kit.get_current_actor(), **body)
    return {"message": "The snapshot is being taken.", "snapshot": snapshot, "task_id": task.id}


@user.post(
    f"{SNAPSHOT_PATH}/rollback",
    op="snapshot_rollback",
    can="instances.manage",
    body=RollbackIn,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def rollback(body, instance_id):
    """Return to a snapshot. What was written since is lost.

    The guest is powered off. With the memory (`vmstate`) it then goes on where it was, else it boots. Refused with 409:
    `suspended`, `task_running`, `snapshot_not_available`, `disks_changed`, `already_active` (a live session).
    """
    snapshot = snapshots.get(get_own_instance(instance_id), body.pop("snapname"))
    task = snapshots.rollback(snapshot, actor=kit.get_current_actor(), **body)
    return {"message": "The instance returns to the snapshot.", "task_id": task.id}


@user.delete(
    SNAPSHOT_PATH,
    op="snapshot_delete",
    can="instances.manage",
    body=SnapName,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def delete(body, instance_id):
    """Delete a snapshot. The instance stays as it is."""
    task = snapshots.delete(
        snapshots.get(get_own_instance(instance_id), body["snapname"]), actor=kit.get_current_actor()
    )
    return {"message": "The snapshot is being deleted.", "task_id": task.id}
