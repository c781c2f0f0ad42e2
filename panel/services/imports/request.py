"""Requesting an import of a machine that the latest discovery found."""

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import from_stored, message, to_stored
from panel.core.task_kinds import task_kind
from panel.models import Account, Hypervisor, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import catalog, unmanaged_machines
from panel.services.ids import generate_instance_name, generate_mac
from panel.services.imports import addresses, validate
from panel.services.state_machine import TASK_RUNNING, make_problem

IMPORT_TASK_KIND = task_kind("hypervisor_adopt", "Import of a machine")


def get_discovered_machines(hypervisor: Hypervisor) -> dict[str, dict[str, Any]]:
    """Return the unmanaged machines of the latest completed discovery, by id."""
    query = select(Task).where(Task.resource_id == hypervisor.id, Task.kind == unmanaged_machines.DISCOVER_TASK_KIND)
    task = session.scalar(query.where(Task.status == "completed").order_by(Task.id.desc()).limit(1))
    return {machine["id"]: load_description(machine) for machine in task.arguments.get("unknown", ())} if task else {}


def load_description(machine: dict[str, Any]) -> dict[str, Any]:
    """Return a description that a task stored, with its messages."""
    return convert_messages(machine, from_stored)


def dump_description(machine: dict[str, Any]) -> dict[str, Any]:
    """Return the description as a task stores it."""
    return convert_messages(machine, to_stored)


def convert_messages(machine: dict[str, Any], convert: Callable[[str | None], str | None]) -> dict[str, Any]:
    converted: dict[str, Any] = {
        name: [convert(text) for text in machine[name]] for name in ("faults", "obstacles") if name in machine
    }
    if "disks" in machine:  # discoveries of older versions recorded only id and name
        converted["disks"] = [{**disk, "fault": convert(disk.get("fault"))} for disk in machine["disks"]]
    return machine | converted


def get_machine(hypervisor: Hypervisor, name: str) -> dict[str, Any]:
    """Return the unmanaged machine of that name, as the latest discovery stored it."""
    entry = next((row for row in hypervisor.unmanaged_machines if row["name"] == name), None)
    if entry is None:
        raise NotFound(message("The hypervisor has no unmanaged machine with this name."))
    machine = get_discovered_machines(hypervisor).get(entry["id"])
    if machine is None or "power" not in machine:
        raise Conflict(
            message("This machine has not been inspected yet. Discover the hypervisor's machines first."),
            reason="not_discovered",
        )
    return machine


def import_machine(
    hypervisor: Hypervisor,
    name: str,
    *,
    owner: Account,
    plan_id: str,
    actor: str,
    display_name: str | None = None,
    hostname: str | None = None,
    ips: Iterable[str] | None = None,
) -> tuple[Task, str]:
    """Have a worker import the machine of that name for the account `owner`. `ips` are the addresses that its guest
    uses, by default the reported ones of the location. Return the task and the id that the instance will have."""
    machine = get_machine(hypervisor, name)
    if hypervisor.status != "up":
        raise make_problem("hypervisor_unreachable")
    if is_import_running(hypervisor, machine["id"]):
        raise Conflict(message("The machine is already being imported."), reason=TASK_RUNNING)
    plan = catalog.get_offered_plan(hypervisor.group, plan_id)
    validate.ensure_compatible(hypervisor, machine, plan)
    ips = addresses.list_reported_ips(hypervisor, machine, plan) if ips is None else list(dict.fromkeys(ips))
    addresses.get_free_addresses(hypervisor, ips)
    instance_name = generate_instance_name()
    arguments = {
        "machine_id": machine["id"],
        "machine_name": machine["name"],
        "name": instance_name,
        "mac": machine["nics"][0]["mac"] if machine["nics"] else generate_mac(),
        "account_id": owner.id,
        "plan_id": plan.id,
        "display_name": display_name or machine["name"],
        "hostname": hostname or instance_name,
        "ips": ips,
    }
    task = jobs.enqueue(
        IMPORT_TASK_KIND,
        "hypervisor",
        hypervisor,
        lock="storage",
        actor=actor,
        hypervisor_id=hypervisor.id,
        arguments=arguments,
    )
    return task, machine["id"]


def is_import_running(hypervisor: Hypervisor, machine_id: str) -> bool:
    conditions = Task.resource_id == hypervisor.id, Task.kind == IMPORT_TASK_KIND, Task.status.in_(OPEN_STATUSES)
    return any(task.arguments["machine_id"] == machine_id for task in session.scalars(select(Task).where(*conditions)))
