"""Targets of migrations: which hypervisors a machine can move to, and why not to others. Reads only rows."""

from collections.abc import Iterator

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Invalid, Problem
from panel.core.messages import message
from panel.models import Hypervisor, Instance, Storage
from panel.services import placement, state_machine
from panel.services.instances import blockers

UNKNOWN_STATUS_MESSAGE = message("It has not answered yet.")
CLOSED_MESSAGES = {
    "hypervisor_down": message("It does not answer."),
    "hypervisor_maintenance": message("It is in maintenance."),
    "hypervisor_locked": message("It is locked."),
    "hypervisor_deploy_disabled": message("New placements are disabled on it."),
}


def get_requirements(instance: Instance) -> placement.Requirements:
    storage = sum(disk.size for disk in instance.disks)
    return placement.Requirements(cpu_cores=instance.cpu_cores, ram=instance.ram, storage=storage)


def select_target(instance: Instance, target: Hypervisor | None = None) -> tuple[Hypervisor, Storage]:
    """Return hypervisor and storage for the machine and lock their capacity.

    Without a target, the one with most room.
    """
    candidates = placement.select_open_hypervisors(instance.group).where(Hypervisor.id != instance.hypervisor_id)
    if target:
        candidates = candidates.where(Hypervisor.id == target.id)
    hosts = [host for host in placement.lock_hosts(candidates) if target_error(instance, host) is None]
    return placement.Capacity(hosts).choose_host(get_requirements(instance))


def target_error(instance: Instance, target: Hypervisor) -> str | None:
    """Return why the machine cannot run on this hypervisor, or None."""
    source = instance.hypervisor
    if target.id == source.id:
        return message("The machine is already there.")
    if target.group_id != instance.group_id:
        return message("It belongs to another location.")
    if target.driver != source.driver:
        return message("It uses another driver.")
    if instance.tpm_enabled and not target.tpm:
        return message("It cannot give the machine its TPM.")
    if instance.secure_boot_enabled and not target.secure_boot:
        return message("It cannot give the machine secure boot.")
    if instance.power == "on" and target.accelerated != source.accelerated:
        return message("One of the two runs guests with hardware acceleration and the other does not.")
    return None


def availability_error(target: Hypervisor) -> str | None:
    """Return why no machine may move to this hypervisor at the moment, or None."""
    if target.status == "unknown":
        return UNKNOWN_STATUS_MESSAGE
    return CLOSED_MESSAGES[target.unschedulable_reason] if target.unschedulable_reason else None


def run_checks(instance: Instance, target: Hypervisor) -> Iterator[tuple[str, bool, str | None]]:
    """Yield every check before a migration: name, whether it passed, and a sentence if not."""
    reason = state_machine.action_error(instance, "migrate", by_operator=True)
    unavailable = availability_error(target)
    yield "instance", reason is None, reason and state_machine.REASON_MESSAGES.get(reason)
    blocker = blocking_error(instance)
    yield "disks", blocker is None, blocker
    yield "source", instance.hypervisor.status == "up", message("The machine's own hypervisor does not answer.")
    yield "target", unavailable is None, unavailable
    error = target_error(instance, target)
    yield "fit", error is None, error
    error = error or unavailable or capacity_error(instance, target)
    yield "room", error is None, error


def blocking_error(instance: Instance) -> str | None:
    """Return what has to end before the machine can move, as a sentence, or None."""
    try:
        blockers.ensure_movable(instance)
    except Problem as error:
        return error.message
    return None


def capacity_error(instance: Instance, target: Hypervisor) -> str | None:
    """Return which of memory, processors or storage the target lacks, as a sentence, or None."""
    return placement.Capacity([target]).placement_error(get_requirements(instance))


def list_targets(instance: Instance) -> Iterator[tuple[Hypervisor, str | None]]:
    """Yield the other hypervisors of the location, each with the first failed check, or None."""
    query = select(Hypervisor).where(Hypervisor.group_id == instance.group_id).order_by(Hypervisor.name)
    for target in session.scalars(query.where(Hypervisor.id != instance.hypervisor_id)):
        yield target, next((error for _, passed, error in run_checks(instance, target) if not passed), None)


def ensure_target_fits(instance: Instance, target: Hypervisor) -> None:
    """Raise Invalid if the machine cannot move to a target that was chosen by name."""
    error = target_error(instance, target) or availability_error(target)
    if error:
        raise Invalid(
            message("The instance cannot be migrated to {target}. {error}", target=target.name, error=error),
            hypervisor_id=error,
        )
