"""Moving an instance to another plan (specification 4.11): its disk grows at once, processors and memory follow at the
next start. Everything that the plan promises is given, or nothing is."""

from sqlalchemy import select

from panel.db import session
from panel.errors import Conflict, Forbidden, Invalid
from panel.models import Hypervisor
from panel.services import catalog, forges, settings, snapshots, subnets, usage
from panel.services.instances.actions import enqueue
from panel.services.instances.create import Room
from panel.services.instances.rules import WORDS, refusal

SHORT = {4: "The location has no free IPv4 address left.", 6: "The location has no free IPv6 address left."}


def offered(instance):
    """The other plans of its location: each with the reason why it cannot be moved there, or None."""
    room = Room([instance.hypervisor])
    return [
        (plan, misfit(instance, plan, room))
        for plan in session.scalars(catalog.plans(instance.group))
        if plan.id != instance.plan_id
    ]


def misfit(instance, plan, room):
    """Why the machine cannot have the plan where it is, or None. Addresses are only known when they are taken."""
    first = instance.disks[0]
    if plan.storage < first.size:
        return None, "Its disk is smaller. A disk cannot shrink."
    host = instance.hypervisor
    cores, ram = plan.cpu_cores - instance.cpu_cores, plan.ram - instance.ram
    if (ram > 0 and room.ram[host] < ram) or (cores > 0 and room.cores[host] < cores):
        return "resources_not_sufficient", "Its hypervisor has not enough memory or processors left."
    if plan.storage > first.size and room.disk[first.on] < plan.storage - first.size:
        return "storage_not_sufficient", "Its hypervisor has not enough storage left."
    return None


def allowed(instance):
    """Why its owner may not do it, or None."""
    if instance.billing_mode == "external":
        return "This instance is sold by another system. Change its plan there."
    if not settings.get().customers_change_plans:
        return "Plans are changed by support here."
    return None


def change_plan(instance, *, plan_id, actor, by_operator=False):
    """Returns the task that grows the disk."""
    reason = refusal(instance, "change_plan", by_operator=by_operator)
    if reason and not (by_operator and reason == "suspended"):
        raise Conflict(WORDS[reason], reason=reason)
    if not by_operator and allowed(instance):
        raise Forbidden(allowed(instance))
    plan = catalog.plan(instance.group, plan_id)
    if plan.id == instance.plan_id and plan.storage == instance.disks[0].size:
        raise Invalid("It has this plan already.", plan_id="It has this plan already.")
    held = select(Hypervisor).where(Hypervisor.id == instance.hypervisor_id).with_for_update(of=Hypervisor)
    host = session.scalar(held.execution_options(populate_existing=True))
    if found := misfit(instance, plan, Room([host])):
        raise Invalid(found[1], reason=found[0], plan_id=found[1])
    if plan.storage > instance.disks[0].size:
        forges.refuse_while_active(instance)
        snapshots.refuse_while_kept(instance)
    give_addresses(instance, plan)
    return take(instance, plan, actor)


def give_addresses(instance, plan):
    """What it has fewer of than the plan promises. What it has more of it keeps."""
    for family, promised in ((4, plan.ipv4), (6, plan.ipv6)):
        missing = promised - sum(address.family == family for address in instance.addresses)
        if missing <= 0:
            continue
        taken = subnets.take(instance.group, family, missing)
        if len(taken) < missing:
            raise Invalid(SHORT[family], reason=f"plan_ipv{family}_unavailable", plan_id=SHORT[family])
        for address in taken:
            address.interface_id = instance.primary_interface.id
        if getattr(instance, f"ipv{family}") is None:
            setattr(instance, f"ipv{family}", taken[0].ip)


def take(instance, plan, actor):
    first, size = instance.disks[0], instance.disks[0].size
    if instance.power == "on" and instance.started_ram is None:
        if (plan.cpu_cores, plan.ram) != (instance.cpu_cores, instance.ram):
            instance.started_cpu_cores, instance.started_ram = instance.cpu_cores, instance.ram
    elif (plan.cpu_cores, plan.ram) == (instance.started_cpu_cores, instance.started_ram):
        instance.started_cpu_cores = instance.started_ram = None
    instance.plan, instance.cpu_cores, instance.ram = plan, plan.cpu_cores, plan.ram
    instance.bandwidth, instance.storage = plan.bandwidth, plan.storage
    instance.primary_interface.port_speed = plan.port_speed
    first.size = plan.storage
    if usage.latest(instance.id) is not None:
        usage.change(instance, plan=plan.name, price=plan.price)
    session.flush()
    session.refresh(instance)
    return enqueue(instance, "change_plan", "exclusive", actor=actor, arguments={"plan": plan.name, "size": size})
