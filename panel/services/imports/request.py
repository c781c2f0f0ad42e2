"""Asking for an adoption: what may be chosen from is what the latest discovery found."""

import secrets

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, NotFound, Unavailable
from panel.models import Instance, Interface, Task
from panel.models.tasks import OPEN
from panel.services import catalog, unmanaged_machines
from panel.services.ids import random_mac, unused
from panel.services.imports import addresses, validate
from panel.services.state_machine import BUSY, WORDS

ADOPT = "hypervisor_adopt"


def described(hypervisor):
    """What the latest discovery that ended well found of each unknown machine, by its id."""
    query = select(Task).where(Task.resource_id == hypervisor.id, Task.kind == unmanaged_machines.DISCOVER)
    found = session.scalar(query.where(Task.status == "completed").order_by(Task.id.desc()).limit(1))
    return {machine["id"]: machine for machine in found.arguments.get("unknown", ())} if found else {}


def of(hypervisor, name):
    """What is known of the unknown machine of that name."""
    stranger = next((each for each in hypervisor.strangers if each["name"] == name), None)
    if stranger is None:
        raise NotFound("The hypervisor has no unknown machine of that name.")
    machine = described(hypervisor).get(stranger["id"])
    if machine is None or "power" not in machine:
        raise Conflict("Nobody has looked at this machine yet. Look at the hypervisor first.", reason="not_discovered")
    return machine


def adopt(hypervisor, name, *, owner, plan_id, actor, display_name=None, hostname=None, ips=None):
    """Has a worker make the machine of that name an instance of the account `owner`. `ips` are the addresses that its
    guest uses: by default those that it told of, as far as they are the location's. Returns the task and the id that
    the instance will have."""
    machine = of(hypervisor, name)
    if hypervisor.status != "up":
        raise Unavailable(WORDS["hypervisor_unreachable"], reason="hypervisor_unreachable")
    if under_way(hypervisor, machine["id"]):
        raise Conflict("The machine is being adopted already.", reason=BUSY)
    plan = catalog.plan(hypervisor.group, plan_id)
    validate.refuse_misfit(hypervisor, machine, plan)
    ips = addresses.told(hypervisor, machine, plan) if ips is None else list(dict.fromkeys(ips))
    addresses.free(hypervisor, ips)
    given = unused(Instance.name, lambda: f"h{secrets.randbelow(9 * 10**7) + 10**7}")
    chosen = {
        "machine_id": machine["id"],
        "machine_name": machine["name"],
        "name": given,
        "mac": machine["nics"][0]["mac"] if machine["nics"] else unused(Interface.mac, random_mac),
        "account_id": owner.id,
        "plan_id": plan.id,
        "display_name": display_name or machine["name"],
        "hostname": hostname or given,
        "ips": ips,
    }
    task = jobs.enqueue(
        ADOPT, "hypervisor", hypervisor, lock="storage", actor=actor, hypervisor_id=hypervisor.id, arguments=chosen
    )
    return task, machine["id"]


def under_way(hypervisor, machine_id):
    mine = Task.resource_id == hypervisor.id, Task.kind == ADOPT, Task.status.in_(OPEN)
    return any(task.arguments["machine_id"] == machine_id for task in session.scalars(select(Task).where(*mine)))
