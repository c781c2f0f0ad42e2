"""Creating instances: the row and its host, disk, interface and addresses are allocated in one transaction."""

import secrets
from copy import copy

from panel.core import events
from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Disk, Hypervisor, Instance, Interface
from panel.services import address_allocation, catalog, group_grants, hypervisors, usage
from panel.services.ids import generate_unique, random_mac


def create(account, *, location_id, plan_id, actor, hostname=None, display_name=None, node=None, **settings):
    """Create an instance of the account, not deployed yet. Errors name the field; their `reason` tells what ran out."""
    group = session.get(hypervisors.HypervisorGroup, location_id)
    if group is None or not ((group.enabled and group_grants.can_choose(group, account)) or node):
        raise Invalid(message("The location cannot be chosen."), location_id=message("No such location is open."))
    plan = catalog.get_offered_plan(group, plan_id)
    host, storage = select_host(group, plan, node)
    name = generate_unique(Instance.name, lambda: f"h{secrets.randbelow(9 * 10**7) + 10**7}")
    instance = Instance(
        name=name,
        display_name=display_name or hostname or name,
        hostname=hostname or name,
        account_id=account.id,
        group=group,
        hypervisor=host,
        plan=plan,
        image=None,
        cpu_cores=plan.cpu_cores,
        ram=plan.ram,
        storage=plan.storage,
        bandwidth=plan.bandwidth,
        vnc_password=secrets.token_urlsafe(6)[:8],
        **settings,
    )
    instance.disks = [Disk(storage_id=storage.id, name=f"{name}-0.qcow2", size=plan.storage)]
    if group.public_networking_enabled:
        instance.interfaces = [Interface(mac=generate_unique(Interface.mac, random_mac), port_speed=plan.port_speed)]
    session.add(instance)
    session.flush()
    account.grant_on_create(instance)
    address_allocation.allocate_missing(instance, plan, "{}_not_available")
    facts = {"name": instance.display_name, "plan": plan.name, "price": 0 if instance.pack_id else plan.price}
    usage.start_metering("instance", instance, billing_mode=instance.billing_mode, **facts)
    events.record("instance.created", "instance", instance, actor=actor)
    session.flush()
    session.refresh(instance)
    return instance


def select_host(group, plan, node=None):
    """Return the hypervisor and storage for a machine of this size. The candidates are locked, so that concurrent
    requests cannot allocate the same capacity."""
    candidates = catalog.select_open_hypervisors(group).with_for_update(of=Hypervisor)
    if node:
        candidates = candidates.where(Hypervisor.id == node.id)
    hosts = session.scalars(candidates.execution_options(populate_existing=True)).all()
    return best_host(Capacity(hosts), plan)


def capacity_errors(group, plans):
    """Return for each plan why no machine of that size can be placed in the location now, or None."""
    capacity = Capacity(session.scalars(catalog.select_open_hypervisors(group)).all())
    reasons = {}
    for plan in plans:
        try:
            reasons[plan] = best_host(capacity, plan) and None
        except Invalid as error:
            reasons[plan] = error.message
    return reasons


def find_full_locations(groups):
    """Return the ids of the locations that offer plans, none of which fits any more. The number of queries is
    constant."""
    capacity = Capacity(session.scalars(catalog.select_open_hypervisors(*groups)).all())
    full = set()
    for group_id, plans in catalog.list_plans_by_location(groups).items():
        local_capacity = capacity.within(group_id)
        if local_capacity.hosts and plans and not any(local_capacity.has_space(plan) for plan in plans):
            full.add(group_id)
    return full


class Capacity:
    """Free capacity of hypervisors: `ram` in MiB and `cores` by hypervisor, `disk` in GiB by storage."""

    def __init__(self, hosts):
        allocations = hypervisors.get_allocations([host.id for host in hosts])
        storage_allocations = hypervisors.get_storage_allocations(
            [storage.id for host in hosts for storage in host.storages]
        )
        self.hosts = hosts
        self.ram = {host: host.memory_mb * host.memory_overcommit - allocations[host.id]["ram"] for host in hosts}
        self.cores = {host: host.cpu_cores * host.cpu_overcommit - allocations[host.id]["cpu_cores"] for host in hosts}
        self.disk = {
            storage: storage.capacity / hypervisors.BYTES_PER_GIB * storage.overcommit
            - storage_allocations.get(storage.id, 0)
            for host in hosts
            for storage in host.storages
        }

    def within(self, group_id):
        """Return the capacity of one location."""
        part = copy(self)
        part.hosts = [host for host in self.hosts if host.group_id == group_id]
        return part

    def has_space(self, plan):
        try:
            return bool(best_host(self, plan))
        except Invalid:
            return False


def best_host(capacity, plan):
    """Return the hypervisor with the most free memory on which the plan fits, and its storage. Raise when there is
    none."""
    if not capacity.hosts:
        raise Invalid(
            message("No instance can be placed in this location at the moment."), reason="hypervisor_not_available"
        )
    suitable = [
        host for host in capacity.hosts if capacity.ram[host] >= plan.ram and capacity.cores[host] >= plan.cpu_cores
    ]
    if not suitable:
        raise Invalid(
            message("The location does not have enough memory or processors left."), reason="resources_not_sufficient"
        )
    for host in sorted(suitable, key=capacity.ram.get, reverse=True):
        for storage in host.storages:
            if storage.enabled and capacity.disk[storage] >= plan.storage:
                return host, storage
    raise Invalid(message("The location does not have enough storage left."), reason="storage_not_sufficient")
