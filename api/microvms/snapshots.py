"""Snapshots of customers' micro VMs."""

from marshmallow import fields

from api import kit
from api.microvms import user
from api.microvms.customer import (
    ACTION_RESPONSE,
    DESTROY_RESPONSE,
    MANAGE_PERMISSION,
    TASK_FIELD,
    VIEW_PERMISSION,
    VM_PATH,
    describe_action,
    get_own_microvm,
)
from panel.schemas.base import describe
from panel.schemas.microvms import MicrovmRollback, MicrovmSnapshotIn, MicrovmSnapshotOut
from panel.services.microvms import snapshots

SNAPSHOT_RESPONSE = kit.Done.from_dict(
    {"task_id": TASK_FIELD, "snapshot": fields.Nested(MicrovmSnapshotOut, **describe("The snapshot."))},
    name="MicrovmSnapshotTaken",
)


@user.get(
    f"{VM_PATH}/snapshots",
    op="snapshots",
    can=VIEW_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_page_schema(MicrovmSnapshotOut),
)
def listing(microvm_id):
    """List the snapshots of a micro VM, oldest first."""
    return kit.paginate(snapshots.listing(get_own_microvm(microvm_id)))


@user.post(
    f"{VM_PATH}/snapshots", op="snapshot_create", can=MANAGE_PERMISSION, body=MicrovmSnapshotIn, out=SNAPSHOT_RESPONSE
)
def create(body, microvm_id):
    """Take a snapshot of a micro VM: of its disk, and of its memory while it runs.

    Poll the list until it is `available` or `failed`. 409: `microvm_paused`, `microvm_failed`, `task_running`; 422:
    `snapshot_limit`, or under `name` when the name is taken.
    """
    snapshot, task = snapshots.create(get_own_microvm(microvm_id), actor=kit.get_current_actor(), **body)
    return {"message": "Snapshot requested.", "task_id": task.id, "snapshot": snapshot}


@user.delete(
    f"{VM_PATH}/snapshot/<microvm_snapshot_id>", op="snapshot_delete", can=MANAGE_PERMISSION, out=DESTROY_RESPONSE
)
def delete(microvm_id, microvm_snapshot_id):
    """Delete a snapshot of a micro VM.

    The micro VM is not changed. 409 `task_running` while another task works on it.
    """
    snapshot = snapshots.get(get_own_microvm(microvm_id), microvm_snapshot_id)
    task = snapshots.delete(snapshot, actor=kit.get_current_actor())
    return {"message": "Deletion requested.", "task_id": task.id}


@user.post(f"{VM_PATH}/rollback", op="rollback", can=MANAGE_PERMISSION, body=MicrovmRollback, out=ACTION_RESPONSE)
def roll_back(body, microvm_id):
    """Return a micro VM to a snapshot. Later changes are lost.

    A snapshot with memory continues from where it was; without, the micro VM boots unless it was stopped. 409:
    `snapshot_not_available`, `microvm_failed`, `task_running`; 422 under `snapshot_id` for an unknown snapshot.
    """
    microvm = get_own_microvm(microvm_id)
    snapshot = snapshots.get(microvm, body["snapshot_id"], "snapshot_id")
    task = snapshots.roll_back(snapshot, actor=kit.get_current_actor())
    return describe_action(microvm, task, "Rollback requested.")
