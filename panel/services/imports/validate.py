"""Whether a machine can be imported as it is, and whether a plan is large enough for it."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import join_messages, message
from panel.models import Disk, Hypervisor, Instance, Interface, Plan
from panel.services import placement
from panel.services.disks import MAX_DISKS_PER_INSTANCE

MAX_DISK_NAME_LENGTH = Disk.name.type.length
MACHINE_RUNS_MESSAGE = message(
    "The machine runs, or ran at the last discovery. Shut it down, then run discovery again."
)


def list_blocking_issues(hypervisor: Hypervisor, machine: dict[str, Any]) -> Iterator[str]:
    """Yield everything that prevents an import, whatever account and plan are chosen, as sentences."""
    yield from machine["faults"]
    if session.scalar(select(Instance.id).where(Instance.id == machine["id"])):
        yield message("An instance has the same ID. This VM may be a copy of it.")
    if not machine["disks"]:
        yield message("It has no disk.")
    if len(machine["disks"]) > MAX_DISKS_PER_INSTANCE:
        yield message(
            "It has {count} disks, and an instance at most {maximum}.",
            count=len(machine["disks"]),
            maximum=MAX_DISKS_PER_INSTANCE,
        )
    for disk in machine["disks"]:
        error = disk_error(hypervisor, disk)
        if error:
            yield message("Its disk {device} ({name}) {error}.", device=disk["device"], name=disk["name"], error=error)
    if len(machine["nics"]) > 1:
        yield message("It has {count} network cards, and an instance has one.", count=len(machine["nics"]))
    for nic in machine["nics"]:
        if session.scalar(select(Interface.id).where(Interface.mac == nic["mac"])):
            yield message("Another instance's network card has its address {mac}.", mac=nic["mac"])


def disk_error(hypervisor: Hypervisor, disk: Mapping[str, Any]) -> str | None:
    """Return why the disk cannot be an instance's, completing "Its disk …"; or None."""
    if disk["fault"]:
        return disk["fault"]
    if disk["storage"] not in [storage.name for storage in hypervisor.storages]:
        return message("is in no storage of the hypervisor: add its folder as one")
    if len(disk["name"]) > MAX_DISK_NAME_LENGTH:
        return message("has a name of more than {maximum} characters", maximum=MAX_DISK_NAME_LENGTH)
    if session.scalar(select(Disk.id).where(Disk.name == disk["name"])):
        return message("has the name of a disk that the panel has: rename its file")
    return None


def ensure_compatible(hypervisor: Hypervisor, machine: dict[str, Any], plan: Plan) -> None:
    """Raise when the machine cannot be imported with that plan now. Locks the hypervisor, so that its remaining
    capacity is not allocated twice."""
    if machine["power"] != "off":
        raise Conflict(MACHINE_RUNS_MESSAGE, reason="not_stopped")
    issues = list(list_blocking_issues(hypervisor, machine))
    if issues:
        raise Conflict(join_messages(issues), reason="not_adoptable")
    error = plan_error(machine, plan)
    if error:
        raise Invalid(message("The plan is too small for the machine."), plan_id=error)
    ensure_capacity(hypervisor, machine, plan)


def plan_error(machine: dict[str, Any], plan: Plan) -> str | None:
    """Return why the plan is too small for the machine, in a sentence, or None."""
    for machine_value, plan_value, unit in (
        (machine["cpu_cores"], plan.cpu_cores, message("processors")),
        (machine["memory_mb"], plan.ram, message("MiB of memory")),
        (machine["disks"][0]["size"] if machine["disks"] else 0, plan.storage, message("GiB on its first disk")),
    ):
        if machine_value > plan_value:
            return message(
                "The machine has {needed} {unit}, the plan {offered}.",
                needed=machine_value,
                unit=unit,
                offered=plan_value,
            )
    return None


def ensure_capacity(hypervisor: Hypervisor, machine: dict[str, Any], plan: Plan) -> None:
    capacity = placement.lock_capacity(hypervisor.id)
    if not capacity.has_cores_and_ram(hypervisor, plan):
        raise Invalid(
            message("The hypervisor does not have enough memory or processors left."), reason="resources_not_sufficient"
        )
    for storage in hypervisor.storages:
        size = sum(disk["size"] for disk in machine["disks"] if disk["storage"] == storage.name)
        sentence = message(
            "The storage {storage} does not have enough free space for these disks.", storage=storage.name
        )
        capacity.ensure_space(storage, size, sentence)
