"""Hardware options of an instance (VNC, TPM, secure boot) and settings with a path of their own."""

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
    ("vnc", True): "VNC enabled. A running guest without VNC gets it at its next start.",
    ("vnc", False): "VNC disabled.",
    ("tpm", True): "TPM enabled. It takes effect at next boot.",
    ("tpm", False): "TPM disabled. It takes effect at next boot.",
    ("secure-boot", True): "Secure boot enabled.",
    ("secure-boot", False): "Secure boot disabled.",
}
SWITCH_ANSWER = kit.Schema.from_dict(
    {
        "task_id": fields.String(
            allow_none=True, **describe("The task to poll; null if the instance is not deployed yet.", EXAMPLE_ID)
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


add_switch_routes("vnc", "enable", "Enable the VNC console.\n\nA running guest without VNC gets it at its next start.")
add_switch_routes("vnc", "disable", "Disable the VNC console.\n\nOpen consoles are closed within seconds.")
add_switch_routes(
    "tpm",
    "enable",
    "Add a TPM to an instance.\n\nReturns 409 `tpm_unsupported_on_node` if the hypervisor does not support software "
    "TPMs, and 409 `not_stopped` while the instance is running.",
)
add_switch_routes(
    "tpm", "disable", "Remove the TPM of an instance.\n\nTakes effect at the next start and is always allowed."
)
add_switch_routes(
    "secure-boot",
    "enable",
    "Enable UEFI secure boot: only signed systems can boot.\n\nReturns 409 `secure_boot_unsupported_on_node` if the "
    "hypervisor has no such firmware, `secure_boot_unsupported_by_image` for an unsigned image or less than 384 MiB of "
    "memory, `not_stopped` while the instance is running, and `has_snapshots` while it has snapshots, which are not "
    "possible with secure boot.",
)
add_switch_routes(
    "secure-boot",
    "disable",
    "Disable secure boot.\n\nThe instance boots with a BIOS again. Returns 409 `not_stopped` while it is running.",
)


@user.post(
    "/instance/<instance_id>/boot-order",
    op="boot_order",
    can="instances.manage",
    body=BootOrder,
    out=kit.build_wrapped_schema("instance", InstanceOut),
)
def boot_order(body, instance_id):
    """Set the boot order. It takes effect at the next start."""
    return {
        "message": "Boot order updated.",
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
    """Change the display name of an instance. The platform's own name never changes."""
    return {"message": "Name updated.", "instance": instances.update(get_own_instance(instance_id), **body)}
