"""Disks of an instance: customers attach, detach and delete them, operators also add and resize them."""

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from api.instances.suspension import OPTIONAL_TASK
from panel.schemas.base import describe
from panel.schemas.disks import DiskIn, DiskPatch
from panel.schemas.instances import DiskOut
from panel.services import disks, instances

DISK_PATH = "/instance/<instance_id>/disk/<disk_id>"
DISK_REFUSALS = """

Returns 409 `suspended`, `task_running`, `not_deployed`, `already_active` (a live-snapshot session) or
`primary_disk`."""
DISK_ACTION_SUMMARIES = {
    "attach": "Attach a disk.\n\nA running guest sees it immediately.",
    "detach": "Detach a disk.\n\nThe disk and its data are kept. A running guest must release it: unmount it first.",
    "delete": "Delete a disk.\n\nIt is detached first. All data on it is lost. The first disk cannot be deleted.",
}
DISK_ANSWER = kit.Schema.from_dict(
    {"disk": fields.Nested(DiskOut, **describe("The disk.")), "task_id": TASK_ID}, name="DiskWork"
)


def add_action_routes(action, summary):
    def act(instance_id, disk_id):
        task = getattr(disks, action)(disks.get(get_own_instance(instance_id), disk_id), actor=kit.get_current_actor())
        return {"message": disks.get_result_message(action, task), **({"task_id": task.id} if task else {})}

    def admin_act(instance_id, disk_id):
        disk = disks.get(instances.get(instance_id), disk_id)
        task = getattr(disks, action)(disk, actor=kit.get_current_actor(), by_operator=True)
        kit.set_message(disks.get_result_message(action, task))
        return {"task_id": task and task.id}

    act.__doc__ = admin_act.__doc__ = summary + DISK_REFUSALS
    path, op = f"{DISK_PATH}/{action}", f"disk_{action}"
    user.post(path, op=op, can="instances.manage", out=kit.build_result_schema(task_id=TASK_ID))(act)
    aliases = (f"/api/v1/instance/<instance_id>/disks/<disk_id>/{action}",)
    admin.post(path, op=op, can="admin:instances:write", out=OPTIONAL_TASK, aliases=aliases)(admin_act)


for action, summary in DISK_ACTION_SUMMARIES.items():
    add_action_routes(action, summary)


@admin.post("/instance/<instance_id>/disks", op="disk_add", can="admin:instances:write", body=DiskIn, out=DISK_ANSWER)
def add(body, instance_id):
    """Add a blank disk.

    A running guest sees it immediately. Returns 422 `storage_not_sufficient`, and 409 for the same reasons as the other
    changes of disks.
    """
    disk, task = disks.add(instances.get(instance_id), actor=kit.get_current_actor(), **body)
    kit.set_message("New disk requested.")
    return {"disk": disk, "task_id": task.id}


@admin.patch(DISK_PATH, op="disk_resize", can="admin:instances:write", body=DiskPatch, out=OPTIONAL_TASK)
def resize(body, instance_id, disk_id):
    """Resize a disk to a larger size.

    A running guest sees the new size immediately. Returns 422 for a smaller size and 422 `storage_not_sufficient`.
    """
    task = disks.resize(disks.get(instances.get(instance_id), disk_id), actor=kit.get_current_actor(), **body)
    kit.set_message("Resize requested." if task else "The disk already has this size.")
    return {"task_id": task and task.id}


@admin.delete(DISK_PATH, op="disk_remove", can="admin:instances:write", out=OPTIONAL_TASK)
def remove(instance_id, disk_id):
    """Delete a disk.

    The same as the action `delete`. All data on it is lost. Returns 409 `primary_disk` for the first disk,
    `has_snapshots` or `already_active` while a snapshot or live-snapshot session uses it, `suspended` or
    `task_running`.
    """
    task = disks.delete(disks.get(instances.get(instance_id), disk_id), actor=kit.get_current_actor(), by_operator=True)
    kit.set_message(disks.get_result_message("delete", task))
    return {"task_id": task.id}
