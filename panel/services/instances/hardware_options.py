"""What of a machine can be switched on and off: its screen, its TPM, secure boot.

The node learns of it at once, by a task that defines the machine anew; a guest that runs keeps the devices it has until
its next start. A screen that is switched off is closed to everybody at once all the same.
"""

from panel.core.db import session
from panel.core.errors import Conflict
from panel.services import snapshots
from panel.services.instances.actions import enqueue, open_task

STOP_FIRST = "The instance is running. Stop it first: a TPM can only be built into a machine that is off."
NO_TPM = "The hypervisor of this instance has no software TPM. The operator has to install swtpm on it."
OFF_FIRST = "The instance is running. Stop it first: the firmware of a machine can only be changed while it is off."
NO_FIRMWARE = "The hypervisor of this instance has no secure boot. The operator has to install ovmf on it."
UEFI_MB = 384
"""Memory with which Debian's kernels start by UEFI: with 256 MiB they reset the machine over and over."""

TOO_LITTLE = f"A system needs {UEFI_MB} MiB of memory to start with secure boot. Choose a larger plan first."
UNSIGNED = "The image of this instance does not start with secure boot. Reinstall it with one that does."


def vnc(instance, on, *, actor):
    """Opens or closes the screen. Returns the task, or None for a machine that is not made yet."""
    instance.enable_vnc = on
    session.flush()
    return configure(instance, actor=actor)


def tpm(instance, on, *, actor):
    """Gives the machine a TPM at its next start, or takes it away. Enabling it is refused with
    `tpm_unsupported_on_node` and, for a running machine, `not_stopped`; disabling never (specification 7.2, 9.5)."""
    reason = no_tpm(instance) if on and not instance.tpm_enabled else None
    if reason:
        raise Conflict(reason[1], reason=reason[0])
    instance.tpm_enabled = on
    session.flush()
    return configure(instance, actor=actor)


def no_tpm(instance):
    """Why the machine cannot be given a TPM now, as the reason word and a sentence, or None."""
    if not instance.hypervisor.tpm:
        return "tpm_unsupported_on_node", NO_TPM
    return ("not_stopped", STOP_FIRST) if instance.power == "on" else None


def secure_boot(instance, on, *, actor):
    """Gives the machine UEFI with secure boot instead of its BIOS, or takes it away. Another firmware is another
    machine, so either needs it off (`not_stopped`). Enabling is refused with `secure_boot_unsupported_on_node`, with
    `secure_boot_unsupported_by_image`, and while there are snapshots, which belong to the machine as it was."""
    if on != instance.secure_boot_enabled:
        reason = no_secure_boot(instance) if on else not_off(instance)
        if reason:
            raise Conflict(reason[1], reason=reason[0])
        if on:
            snapshots.refuse_while_kept(instance)
    instance.secure_boot_enabled = on
    session.flush()
    return configure(instance, actor=actor)


def no_secure_boot(instance):
    """Why the machine cannot be given secure boot now, as the reason word and a sentence, or None."""
    if not instance.hypervisor.secure_boot:
        return "secure_boot_unsupported_on_node", NO_FIRMWARE
    if instance.image and not instance.image.secure_boot:
        return "secure_boot_unsupported_by_image", UNSIGNED
    if instance.ram < UEFI_MB:
        return "secure_boot_unsupported_by_image", TOO_LITTLE
    return not_off(instance)


def not_off(instance):
    return ("not_stopped", OFF_FIRST) if instance.power == "on" else None


def configure(instance, *, actor):
    """Brings the row's settings to the node. One task for several that are changed in a row."""
    if not instance.deployed:
        return None
    waiting = open_task(instance, "instance_configure")
    same = waiting if waiting and waiting.status != "running" else None
    return same or enqueue(instance, "configure", "light", actor=actor)
