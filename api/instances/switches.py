"""Switching parts of a machine on and off, and the single settings that have a path of their own."""

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.rows import mine
from panel.schemas.base import about
from panel.schemas.catalog import ID
from panel.schemas.instances import BootOrder, InstanceOut, Rename
from panel.services import instances

SWITCHED = {
    ("vnc", True): "The screen can be opened. A guest that was started without one has it from its next start on.",
    ("vnc", False): "The screen is closed.",
    ("tpm", True): "The machine has a TPM from its next start on.",
    ("tpm", False): "The machine has no TPM from its next start on.",
}
WORK = kit.Schema.from_dict(
    {"task_id": fields.String(allow_none=True, **about("The task to poll; null when there is no machine yet.", ID))},
    name="SwitchWork",
)


def switch(part, action, summary):
    change, on = getattr(instances, f"switch_{part}"), action == "enable"

    def customers(instance_id):
        task = change(mine(instance_id), on, actor=kit.actor())
        return {"message": SWITCHED[part, on], **({"task_id": task.id} if task else {})}

    def operators(instance_id):
        task = change(instances.get(instance_id), on, actor=kit.actor())
        kit.say(SWITCHED[part, on])
        return {"task_id": task and task.id}

    customers.__doc__ = operators.__doc__ = summary
    path = f"/instance/<instance_id>/{part}/{action}"
    user.post(path, op=f"{part}.{action}", can="instances.manage", out=kit.done(task_id=TASK_ID))(customers)
    admin.post(path, op=f"{part}.{action}", can="admin:instances:write", out=WORK)(operators)


switch("vnc", "enable", "Let the screen be opened.\n\nA guest that was started without one has it at its next start.")
switch("vnc", "disable", "Close the screen.\n\nScreens that are open are closed within seconds.")
switch(
    "tpm",
    "enable",
    "Give the machine a TPM.\n\nRefused with 409 `tpm_unsupported_on_node` where the hypervisor has no software TPM, "
    "and with 409 `not_stopped` while the instance runs.",
)
switch("tpm", "disable", "Take the TPM away.\n\nIt counts from the next start on, and is never refused.")


@user.post(
    "/instance/<instance_id>/boot-order",
    op="boot_order",
    can="instances.manage",
    body=BootOrder,
    out=kit.keyed("instance", InstanceOut),
)
def boot_order(body, instance_id):
    """Set the order of boot devices. It counts at the next start."""
    return {"message": "The boot order is changed.", "instance": instances.update(mine(instance_id), **body)}


@user.post(
    "/instance/<instance_id>/update-name",
    op="update_name",
    can="instances.manage",
    body=Rename,
    out=kit.keyed("instance", InstanceOut),
)
def update_name(body, instance_id):
    """Change the label. The platform's own name never changes."""
    return {"message": "The name is changed.", "instance": instances.update(mine(instance_id), **body)}
