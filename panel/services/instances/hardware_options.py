"""What of a machine can be switched on and off: its screen, its TPM, secure boot.

The node learns of it at once, by a task that defines the machine anew; a guest that runs keeps the devices it has until
its next start. A screen that is switched off is closed to everybody at once all the same.
"""

from panel.core.db import session
from panel.core.errors import Conflict
from panel.services import snapshots
from panel.services.instances.actions import enqueue, find_open_task

TPM_STOP_FIRST_MESSAGE = "The instance is running. Stop it first: a TPM can only be built into a machine that is off."
NO_TPM_MESSAGE = "The hypervisor of this instance has no software TPM. The operator has to install swtpm on it."
FIRMWARE_STOP_FIRST_MESSAGE = (
    "The instance is running. Stop it first: the firmware of a machine can only be changed while it is off."
)
NO_SECURE_BOOT_MESSAGE = "The hypervisor of this instance has no secure boot. The operator has to install ovmf on it."
SECURE_BOOT_MIN_RAM_MB = 384
"""Memory with which Debian's kernels start by UEFI: with 256 MiB they reset the machine over and over."""

TOO_LITTLE_RAM_MESSAGE = (
    f"A system needs {SECURE_BOOT_MIN_RAM_MB} MiB of memory to start with secure boot. Choose a larger plan first."
)
UNSIGNED_IMAGE_MESSAGE = "The image of this instance does not start with secure boot. Reinstall it with one that does."


def set_vnc(instance, enabled, *, actor):
    """Opens or closes the screen. Returns the task, or None for a machine that is not made yet."""
    instance.enable_vnc = enabled
    session.flush()
    return configure(instance, actor=actor)


def set_tpm(instance, enabled, *, actor):
    """Gives the machine a TPM at its next start, or takes it away. Enabling it is refused with
    `tpm_unsupported_on_node` and, for a running machine, `not_stopped`; disabling never (specification 7.2, 9.5)."""
    reason = tpm_error(instance) if enabled and not instance.tpm_enabled else None
    if reason:
        raise Conflict(reason[1], reason=reason[0])
    instance.tpm_enabled = enabled
    session.flush()
    return configure(instance, actor=actor)


def tpm_error(instance):
    """Why the machine cannot be given a TPM now, as the reason word and a sentence, or None."""
    if not instance.hypervisor.tpm:
        return "tpm_unsupported_on_node", NO_TPM_MESSAGE
    return ("not_stopped", TPM_STOP_FIRST_MESSAGE) if instance.power == "on" else None


def set_secure_boot(instance, enabled, *, actor):
    """Gives the machine UEFI with secure boot instead of its BIOS, or takes it away. Another firmware is another
    machine, so either needs it off (`not_stopped`). Enabling is refused with `secure_boot_unsupported_on_node`, with
    `secure_boot_unsupported_by_image`, and while there are snapshots, which belong to the machine as it was."""
    if enabled != instance.secure_boot_enabled:
        reason = secure_boot_error(instance) if enabled else not_stopped_error(instance)
        if reason:
            raise Conflict(reason[1], reason=reason[0])
        if enabled:
            snapshots.ensure_no_snapshots(instance)
    instance.secure_boot_enabled = enabled
    session.flush()
    return configure(instance, actor=actor)


def secure_boot_error(instance):
    """Why the machine cannot be given secure boot now, as the reason word and a sentence, or None."""
    if not instance.hypervisor.secure_boot:
        return "secure_boot_unsupported_on_node", NO_SECURE_BOOT_MESSAGE
    if instance.image and not instance.image.secure_boot:
        return "secure_boot_unsupported_by_image", UNSIGNED_IMAGE_MESSAGE
    if instance.ram < SECURE_BOOT_MIN_RAM_MB:
        return "secure_boot_unsupported_by_image", TOO_LITTLE_RAM_MESSAGE
    return not_stopped_error(instance)


def not_stopped_error(instance):
    return ("not_stopped", FIRMWARE_STOP_FIRST_MESSAGE) if instance.power == "on" else None


def configure(instance, *, actor):
    """Brings the row's settings to the node. One task for several that are changed in a row."""
    if not instance.deployed:
        return None
    waiting = find_open_task(instance, "instance_configure")
    same = waiting if waiting and waiting.status != "running" else None
    return same or enqueue(instance, "configure", "light", actor=actor)
