"""Where a machine can move, and why not elsewhere, by what is known of the hypervisors."""

from types import SimpleNamespace

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Invalid, Problem
from panel.models import Hypervisor
from panel.services import catalog, state_machine
from panel.services.instances import blockers
from panel.services.instances.create import Capacity, best_host

UNKNOWN_STATUS_MESSAGE = "It has not answered yet."
CLOSED_MESSAGES = {
    "hypervisor_down": "It does not answer.",
    "hypervisor_maintenance": "It is in maintenance.",
    "hypervisor_locked": "It is locked.",
    "hypervisor_deploy_disabled": "It takes no new machines.",
}


def get_needs(instance):
    """What the machine takes, as a plan would say it."""
    storage = sum(disk.size for disk in instance.disks)
    return SimpleNamespace(ram=instance.ram, cpu_cores=instance.cpu_cores, storage=storage)


def select_target(instance, target=None):
    """The hypervisor and storage for the machine, with their room locked; the roomiest when no target is given."""
    candidates = catalog.select_open_hypervisors(instance.group).with_for_update(of=Hypervisor)
    candidates = candidates.where(Hypervisor.id != instance.hypervisor_id)
    if target:
        candidates = candidates.where(Hypervisor.id == target.id)
    hosts = session.scalars(candidates.execution_options(populate_existing=True)).all()
    hosts = [host for host in hosts if target_error(instance, host) is None]
    return best_host(Capacity(hosts), get_needs(instance))


def target_error(instance, target):
    """Why this host is no place for this very machine, or None."""
    source = instance.hypervisor
    if target.id == source.id:
        return "The machine is there already."
    if target.group_id != instance.group_id:
        return "It belongs to another location."
    if target.driver != source.driver:
        return "It is driven in another way."
    if instance.tpm_enabled and not target.tpm:
        return "It cannot give the machine its TPM."
    if instance.secure_boot_enabled and not target.secure_boot:
        return "It cannot give the machine secure boot."
    if instance.power == "on" and target.accelerated != source.accelerated:
        return "One of the two runs guests with hardware acceleration and the other does not."
    return None


def run_checks(instance, target):
    """Everything that is looked at before a move: name, whether it is well, and a sentence if not."""
    reason = state_machine.action_error(instance, "migrate", by_operator=True)
    open_now = UNKNOWN_STATUS_MESSAGE if target.status == "unknown" else CLOSED_MESSAGES.get(target.closed)
    yield "instance", reason is None, state_machine.REASONS.get(reason)
    tied = blocking_error(instance)
    yield "disks", tied is None, tied
    yield "source", instance.hypervisor.status == "up", "The machine's own hypervisor does not answer."
    yield "target", open_now is None, open_now
    fault = target_error(instance, target)
    yield "fit", fault is None, fault
    fault = fault or open_now or capacity_error(instance, target)
    yield "room", fault is None, fault


def blocking_error(instance):
    """What has to be ended before it moves, in a sentence, or None."""
    try:
        blockers.ensure_movable(instance)
    except Problem as error:
        return error.message
    return None


def capacity_error(instance, target):
    """Whether the target lacks memory, processors or storage, in a sentence."""
    try:
        best_host(Capacity([target]), get_needs(instance))
    except Problem as error:
        return error.message
    return None


def list_targets(instance):
    """The other hypervisors of its location, each with the first thing that speaks against it, or None."""
    others = select(Hypervisor).where(Hypervisor.group_id == instance.group_id).order_by(Hypervisor.name)
    for target in session.scalars(others.where(Hypervisor.id != instance.hypervisor_id)):
        yield target, next((fault for _, well, fault in run_checks(instance, target) if not well), None)


def ensure_target_fits(instance, target):
    """A target that was chosen by name and cannot be had."""
    fault = (
        target_error(instance, target)
        or (target.status == "unknown" and UNKNOWN_STATUS_MESSAGE)
        or CLOSED_MESSAGES.get(target.closed)
    )
    if fault:
        raise Invalid(f"The machine cannot move to {target.name}. {fault}", hypervisor_id=fault)
