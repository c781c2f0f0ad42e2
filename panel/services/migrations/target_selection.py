"""Where a machine can move, and why not elsewhere, by what is known of the hypervisors."""

from types import SimpleNamespace

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Invalid, Problem
from panel.models import Hypervisor
from panel.services import catalog, state_machine
from panel.services.instances import blockers
from panel.services.instances.create import Room, roomiest

UNKNOWN = "It has not answered yet."
CLOSED = {
    "hypervisor_down": "It does not answer.",
    "hypervisor_maintenance": "It is in maintenance.",
    "hypervisor_locked": "It is locked.",
    "hypervisor_deploy_disabled": "It takes no new machines.",
}


def need(instance):
    """What the machine takes, as a plan would say it."""
    storage = sum(disk.size for disk in instance.disks)
    return SimpleNamespace(ram=instance.ram, cpu_cores=instance.cpu_cores, storage=storage)


def place(instance, target=None):
    """The hypervisor and storage for the machine, with their room locked; the roomiest when no target is given."""
    candidates = catalog.open_nodes(instance.group).with_for_update(of=Hypervisor)
    candidates = candidates.where(Hypervisor.id != instance.hypervisor_id)
    if target:
        candidates = candidates.where(Hypervisor.id == target.id)
    hosts = session.scalars(candidates.execution_options(populate_existing=True)).all()
    hosts = [host for host in hosts if misfit(instance, host) is None]
    return roomiest(Room(hosts), need(instance))


def misfit(instance, target):
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


def checks(instance, target):
    """Everything that is looked at before a move: name, whether it is well, and a sentence if not."""
    reason = state_machine.refusal(instance, "migrate", by_operator=True)
    open_now = UNKNOWN if target.status == "unknown" else CLOSED.get(target.closed)
    yield "instance", reason is None, state_machine.WORDS.get(reason)
    tied = held(instance)
    yield "disks", tied is None, tied
    yield "source", instance.hypervisor.status == "up", "The machine's own hypervisor does not answer."
    yield "target", open_now is None, open_now
    fault = misfit(instance, target)
    yield "fit", fault is None, fault
    fault = fault or open_now or short(instance, target)
    yield "room", fault is None, fault


def held(instance):
    """What has to be ended before it moves, in a sentence, or None."""
    try:
        blockers.refuse_tied(instance)
    except Problem as error:
        return error.message
    return None


def short(instance, target):
    """Whether the target lacks memory, processors or storage, in a sentence."""
    try:
        roomiest(Room([target]), need(instance))
    except Problem as error:
        return error.message
    return None


def targets(instance):
    """The other hypervisors of its location, each with the first thing that speaks against it, or None."""
    others = select(Hypervisor).where(Hypervisor.group_id == instance.group_id).order_by(Hypervisor.name)
    for target in session.scalars(others.where(Hypervisor.id != instance.hypervisor_id)):
        yield target, next((fault for _, well, fault in checks(instance, target) if not well), None)


def refuse_misfit(instance, target):
    """A target that was chosen by name and cannot be had."""
    fault = misfit(instance, target) or (target.status == "unknown" and UNKNOWN) or CLOSED.get(target.closed)
    if fault:
        raise Invalid(f"The machine cannot move to {target.name}. {fault}", hypervisor_id=fault)
