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
    {"snapshots": fields.List(fields.Nested(SnapshotOut), **describe("Snapshots, oldest first."))}, name="Snapshots"
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
    """Create a snapshot of all disks.

    With `vmstate` it includes the memory of a running guest. While an instance has snapshots, its disks cannot be
    resized, attached or detached. Returns 409 `suspended`, `task_running`, `not_deployed` or `already_active` (a
    live-snapshot session), and 422 `snapshot_limit`.
    """
    snapshot, task = snapshots.create(get_own_instance(instance_id), actor=kit.get_current_actor(), **body)
    return {"message": "Snapshot requested.", "snapshot": snapshot, "task_id": task.id}


@user.post(
    f"{SNAPSHOT_PATH}/rollback",
    op="snapshot_rollback",
    can="instances.manage",
    body=RollbackIn,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def rollback(body, instance_id):
    """Roll an instance back to a snapshot.

    Everything written since the snapshot is lost. The guest is powered off. With memory (`vmstate`) it then resumes
    where it was, otherwise it boots. Returns 409 `suspended`, `task_running`, `snapshot_not_available`, `disks_changed`
    or `already_active` (a live-snapshot session).
    """
    snapshot = snapshots.get(get_own_instance(instance_id), body.pop("snapname"))
    task = snapshots.rollback(snapshot, actor=kit.get_current_actor(), **body)
    return {"message": "Rollback requested.", "task_id": task.id}


@user.delete(
    SNAPSHOT_PATH,
    op="snapshot_delete",
    can="instances.manage",
    body=SnapName,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def delete(body, instance_id):
    """Delete a snapshot. The instance is not affected."""
    task = snapshots.delete(
        snapshots.get(get_own_instance(instance_id), body["snapname"]), actor=kit.get_current_actor()
    )
    return {"message": "Deletion of the snapshot requested.", "task_id": task.id}
