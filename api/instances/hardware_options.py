"""Hardware options of a machine (VNC, TPM, secure boot) and settings with a path of their own."""

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from panel.schemas.base import describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.instances import BootOrder, InstanceOut, Rename
from panel.services import instances

SWITCH_MESSAGES = {
    ("vnc", True): "The screen can be opened. A guest that was started without one has it from its next start on.",
    ("vnc", False): "The screen is closed.",
    ("tpm", True): "The machine has a TPM from its next start on.",
    ("tpm", False): "The machine has no TPM from its next start on.",
    ("secure-boot", True): "The machine starts only what is signed.",
    ("secure-boot", False): "The machine has a BIOS again.",
}
SWITCH_ANSWER = kit.Schema.from_dict(
    {
        "task_id": fields.String(
            allow_none=True, **describe("The task to poll; null when there is no machine yet.", EXAMPLE_ID)
        )
    },
    name="SwitchWork",
)


def add_switch_routes(part, action, summary):
    change, on = getattr(instances, f"set_{part.replace('-', '_')}"), action == "enable"

    def customers(instance_id):
        task = change(get_own_instance(instance_id), on, actor=kit.get_current_actor())
        return {"message": SWITCH_MESSAGES[part, on], **({"task_id": task.id} if task else {})}

    def operators(instance_id):
        task = change(instances.get(instance_id), on, actor=kit.get_current_actor())
        kit.set_message(SWITCH_MESSAGES[part, on])
        return {"task_id": task and task.id}

    customers.__doc__ = operators.__doc__ = summary
    path, operation = f"/instance/<instance_id>/{part}/{action}", part.replace("-", "_")
    user.post(path, op=f"{operation}.{action}", can="instances.manage", out=kit.build_result_schema(task_id=TASK_ID))(
        customers
    )
    admin.post(path, op=f"{operation}.{action}", can="admin:instances:write", out=SWITCH_ANSWER)(operators)


add_switch_routes(
    "vnc", "enable", "Let the screen be opened.\n\nA guest that was started without one has it at its next start."
)
add_switch_routes("vnc", "disable", "Close the screen.\n\nScreens that are open are closed within seconds.")
add_switch_routes(
    "tpm",
    "enable",
    "Give the machine a TPM.\n\nRefused with 409 `tpm_unsupported_on_node` where the hypervisor has no software TPM, "
    "and with 409 `not_stopped` while the instance runs.",
)
add_switch_routes("tpm", "disable", "Take the TPM away.\n\nIt counts from the next start on, and is never refused.")
add_switch_routes(
    "secure-boot",
    "enable",
    "Give the machine UEFI with secure boot: it starts only what is signed.\n\nRefused with 409 "
    "`secure_boot_unsupported_on_node` where the hypervisor has no such firmware, `secure_boot_unsupported_by_image` "
    "for an image that is not signed and with less than 384 MiB of memory, `not_stopped` while the instance runs and "
    "`has_snapshots` while it has snapshots, which such a machine cannot have.",
)
add_switch_routes(
    "secure-boot",
    "disable",
    "Give the machine a BIOS again.\n\nRefused with 409 `not_stopped` while the instance runs.",
)


@user.post(
    "/instance/<instance_id>/boot-order",
    op="boot_order",
    can="instances.manage",
    body=BootOrder,
    out=kit.build_wrapped_schema("instance", InstanceOut),
)
def boot_order(body, instance_id):
    """Set the order of boot devices. It counts at the next start."""
    return {
        "message": "The boot order is changed.",
        "instance": instances.update(get_own_instance(instance_id), **body),
    }


@user.post(
    "/instance/<instance_id>/update-name",
    op="update_name",
    can="instances.manage",
    body=Rename,
    out=kit.build_wrapped_schema("instance", InstanceOut),
)
def update_name(body, instance_id):
    """Change the label. The platform's own name never changes."""
    return {"message": "The name is changed.", "instance": instances.update(get_own_instance(instance_id), **body)}
