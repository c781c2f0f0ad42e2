"""Hardware options of a machine: screen (VNC), TPM, secure boot.

A task defines the machine on the node again. A running guest keeps its devices until its next start, but a screen that
is turned off is closed at once.
"""

from panel.core.db import session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Instance, Task
from panel.services import snapshots
from panel.services.instances.actions import enqueue, find_open_task

task_kind("instance_configure", "Change of the machine")

TPM_STOP_FIRST_MESSAGE = message(
    "The instance is running. Stop it first: a TPM can only be built into a machine that is off."
)
NO_TPM_MESSAGE = message(
    "The hypervisor of this instance has no software TPM. The operator has to install swtpm on it."
)
FIRMWARE_STOP_FIRST_MESSAGE = message(
    "The instance is running. Stop it first: the firmware of a machine can only be changed while it is off."
)
NO_SECURE_BOOT_MESSAGE = message(
    "The hypervisor of this instance has no secure boot. The operator has to install ovmf on it."
)
SECURE_BOOT_MIN_RAM_MB = 384
"""Memory that Debian's kernels need to start by UEFI: with 256 MiB they reset the machine again and again."""

TOO_LITTLE_RAM_MESSAGE = message(
    "A system needs {minimum} MiB of memory to start with secure boot. Choose a larger plan first.",
    minimum=SECURE_BOOT_MIN_RAM_MB,
)
UNSIGNED_IMAGE_MESSAGE = message(
    "The image of this instance does not start with secure boot. Reinstall it with one that does."
)


def set_vnc(instance: Instance, enabled: bool, *, actor: str) -> Task | None:
    """Turn the screen on or off. Return the task, or None before the deploy."""
    instance.enable_vnc = enabled
    session.flush()
    return configure(instance, actor=actor)


def set_tpm(instance: Instance, enabled: bool, *, actor: str) -> Task | None:
    """Add or remove a TPM with the next start. Enabling is refused with `tpm_unsupported_on_node` and, for a running
    machine, `not_stopped`; disabling never (INS-87, INS-88)."""
    reason = tpm_error(instance) if enabled and not instance.tpm_enabled else None
    if reason:
        raise Conflict(reason[1], reason=reason[0])
    instance.tpm_enabled = enabled
    session.flush()
    return configure(instance, actor=actor)


def tpm_error(instance: Instance) -> tuple[str, str] | None:
    """Return why the machine cannot get a TPM now, as reason and sentence, or None."""
    if not instance.hypervisor.tpm:
        return "tpm_unsupported_on_node", NO_TPM_MESSAGE
    return ("not_stopped", TPM_STOP_FIRST_MESSAGE) if instance.power == "on" else None


def set_secure_boot(instance: Instance, enabled: bool, *, actor: str) -> Task | None:
    """Switch the machine to UEFI with secure boot, or back to BIOS. The firmware can only change while the machine is
    off (`not_stopped`). Enabling is refused with `secure_boot_unsupported_on_node`, with
    `secure_boot_unsupported_by_image`, and while there are snapshots, which belong to the former firmware."""
    if enabled != instance.secure_boot_enabled:
        reason = secure_boot_error(instance) if enabled else not_stopped_error(instance)
        if reason:
            raise Conflict(reason[1], reason=reason[0])
        if enabled:
            snapshots.ensure_no_snapshots(instance)
    instance.secure_boot_enabled = enabled
    session.flush()
    return configure(instance, actor=actor)


def secure_boot_error(instance: Instance) -> tuple[str, str] | None:
    """Return why the machine cannot get secure boot now, as reason and sentence, or None."""
    if not instance.hypervisor.secure_boot:
        return "secure_boot_unsupported_on_node", NO_SECURE_BOOT_MESSAGE
    if instance.image and not instance.image.secure_boot:
        return "secure_boot_unsupported_by_image", UNSIGNED_IMAGE_MESSAGE
    if instance.ram < SECURE_BOOT_MIN_RAM_MB:
        return "secure_boot_unsupported_by_image", TOO_LITTLE_RAM_MESSAGE
    return not_stopped_error(instance)


def not_stopped_error(instance: Instance) -> tuple[str, str] | None:
    return ("not_stopped", FIRMWARE_STOP_FIRST_MESSAGE) if instance.power == "on" else None


def configure(instance: Instance, *, actor: str) -> Task | None:
    """Enqueue a task that applies the row's settings on the node. A waiting one is reused. Return it, or None before
    the deploy."""
    if not instance.deployed:
        return None
    waiting = find_open_task(instance, "instance_configure")
    reusable = waiting if waiting and waiting.status != "running" else None
    return reusable or enqueue(instance, "configure", "light", actor=actor)
