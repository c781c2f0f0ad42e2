"""Changing the plan of an instance (INS-81, INS-82): disk and port speed change at once, cores and memory at the
next start. Everything that the plan includes is allocated, or nothing is changed."""

from panel.core.db import session
from panel.core.errors import Forbidden, Invalid
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Instance, Plan, Task
from panel.services import (
    address_allocation,
    catalog,
    firewall,
    forges,
    placement,
    resource_packs,
    settings,
    snapshots,
    usage,
)
from panel.services.instances.actions import enqueue
from panel.services.state_machine import action_error, make_problem

task_kind("instance_change_plan", "Change plan")


def list_offered(instance: Instance) -> list[tuple[Plan, tuple[str | None, str] | None]]:
    """Return the other plans of its location, each with the reason why the instance cannot have it, or None."""
    capacity = placement.Capacity([instance.hypervisor])
    return [
        (plan, plan_error(instance, plan, capacity))
        for plan in session.scalars(catalog.select_plans(instance.group))
        if plan.id != instance.plan_id
    ]


def plan_error(instance: Instance, plan: Plan, capacity: placement.Capacity) -> tuple[str | None, str] | None:
    """Return why the plan does not fit on the instance's hypervisor, as reason and sentence, or None. Addresses are
    checked only when they are allocated."""
    first = instance.disks[0]
    if plan.storage < first.size:
        return None, message("Its disk is smaller. A disk cannot be made smaller.")
    host = instance.hypervisor
    cores, ram = plan.cpu_cores - instance.cpu_cores, plan.ram - instance.ram
    if (ram > 0 and capacity.ram[host] < ram) or (cores > 0 and capacity.cores[host] < cores):
        return "resources_not_sufficient", message("Its hypervisor does not have enough memory or processors left.")
    if plan.storage > first.size and capacity.disk[first.storage] < plan.storage - first.size:
        return "storage_not_sufficient", placement.HOST_STORAGE_FULL_MESSAGE
    return None


def owner_change_error(instance: Instance) -> str | None:
    """Return why its owner may not change the plan, or None."""
    if instance.billing_mode == "external":
        return message("This instance is sold by another system. Change its plan there.")
    if not settings.get().customers_change_plans:
        return message("Contact support to change the plan.")
    return None


def change_plan(instance: Instance, *, plan_id: str, actor: str, by_operator: bool = False) -> Task:
    """Change the plan. Return the task that grows the disk."""
    reason = action_error(instance, "change_plan", by_operator=by_operator)
    if reason and not (by_operator and reason == "suspended"):
        raise make_problem(reason)
    if not by_operator and (refusal := owner_change_error(instance)):
        raise Forbidden(refusal)
    plan = catalog.get_offered_plan(instance.group, plan_id)
    if plan.id == instance.plan_id and plan.storage == instance.disks[0].size:
        raise Invalid(
            message("The instance already has this plan."), plan_id=message("The instance already has this plan.")
        )
    if error := plan_error(instance, plan, placement.lock_capacity(instance.hypervisor_id)):
        raise Invalid(error[1], reason=error[0], plan_id=error[1])
    if plan.storage > instance.disks[0].size:
        forges.ensure_not_active(instance)
        snapshots.ensure_no_snapshots(instance)
    growth = plan.storage - instance.disks[0].size
    resource_packs.ensure_capacity(
        instance, cpu_cores=plan.cpu_cores - instance.cpu_cores, ram=plan.ram - instance.ram, storage=growth
    )
    addresses_added = address_allocation.allocate_missing(instance, plan, "plan_{}_unavailable", "plan_id")
    speed = get_port_speed(instance)
    task = apply_plan(instance, plan, actor)
    if addresses_added:
        firewall.apply_after_address_change(instance, actor)
    elif get_port_speed(instance) != speed:
        firewall.apply_to_affected(instances=[instance.id], actor=actor)
    return task


def get_port_speed(instance: Instance) -> int | None:
    return instance.primary_interface.port_speed if instance.primary_interface else None


def apply_plan(instance: Instance, plan: Plan, actor: str) -> Task:
    first, size = instance.disks[0], instance.disks[0].size
    if instance.power == "on" and instance.started_ram is None:
        if (plan.cpu_cores, plan.ram) != (instance.cpu_cores, instance.ram):
            instance.started_cpu_cores, instance.started_ram = instance.cpu_cores, instance.ram
    elif (plan.cpu_cores, plan.ram) == (instance.started_cpu_cores, instance.started_ram):
        instance.started_cpu_cores = instance.started_ram = None
    instance.plan, instance.cpu_cores, instance.ram = plan, plan.cpu_cores, plan.ram
    instance.bandwidth, instance.storage = plan.bandwidth, plan.storage
    if instance.primary_interface:
        instance.primary_interface.port_speed = plan.port_speed
    first.size = plan.storage
    usage.change_price(instance, plan=plan.name, price=0 if instance.pack_id else plan.price)
    session.flush()
    session.refresh(instance)
    return enqueue(instance, "change_plan", "exclusive", actor=actor, arguments={"plan": plan.name, "size": size})
