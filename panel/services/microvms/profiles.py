"""Profiles: which nodes take micro VMs, and how many."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select, union_all
from sqlalchemy.orm import contains_eager

from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import Message, message
from panel.models import Hypervisor, HypervisorGroup, Microvm, MicrovmImageBuild, MicrovmProfile, Storage
from panel.models.microvms import DEFAULT_ADDRESS_RANGE
from panel.services import hypervisors, placement
from panel.services.crud import get_or_404, update_fields
from panel.services.microvms import network

NO_MICROVM_NODE_MESSAGE = message("No hypervisor in this location takes micro VMs at the moment.")
NO_INTERNET_NODE_MESSAGE = message("No hypervisor in this location with room offers internet access to micro VMs.")
NO_ROOM_MESSAGE = message("The location has no room for a micro VM of this size at the moment.")


@dataclass(frozen=True)
class NodeUsage:
    """The live micro VMs of a node, and its machines that build images."""

    count: int = 0
    memory_mb: int = 0


def listing(search: str | None = None, *, hypervisor_id: str | None = None) -> Select[MicrovmProfile]:
    """Select the profiles, by the hypervisors' names."""
    query = select(MicrovmProfile).join(MicrovmProfile.hypervisor).options(contains_eager(MicrovmProfile.hypervisor))
    query = query.order_by(Hypervisor.name, MicrovmProfile.id)
    if hypervisor_id:
        query = query.where(MicrovmProfile.hypervisor_id == hypervisor_id)
    return query.where(Hypervisor.name.icontains(search, autoescape=True)) if search else query


def get(profile_id: str) -> MicrovmProfile:
    return get_or_404(MicrovmProfile, profile_id, message("No such micro VM profile."))


def find(hypervisor: Hypervisor) -> MicrovmProfile | None:
    """Return the hypervisor's profile, or None."""
    return session.scalar(select(MicrovmProfile).where(MicrovmProfile.hypervisor_id == hypervisor.id))


def create(*, hypervisor_id: str, **values: Any) -> MicrovmProfile:
    hypervisor = hypervisors.get(hypervisor_id, "hypervisor_id")
    if find(hypervisor):
        sentence = message("The hypervisor already has a micro VM profile.")
        raise Invalid(sentence, hypervisor_id=sentence)
    network.ensure_range_is_possible(values.get("address_range", DEFAULT_ADDRESS_RANGE))
    profile = MicrovmProfile(hypervisor=hypervisor, **values)
    session.add(profile)
    session.flush()
    return profile


def update(profile: MicrovmProfile, **changes: Any) -> MicrovmProfile:
    """Change the profile. What concerns the network applies to running micro VMs too."""
    if changes.get("address_range", profile.address_range) != profile.address_range:
        network.ensure_range_is_possible(changes["address_range"], profile)
    update_fields(profile, changes)
    network.notify_refresh(profile.hypervisor_id)
    return profile


def delete(profile: MicrovmProfile) -> None:
    if count_usage([profile.hypervisor_id]):
        raise Conflict(
            message("Micro VMs are on this hypervisor. Destroy them first, or turn the profile off."),
            reason="has_microvms",
        )
    session.delete(profile)
    session.flush()


def count_usage(hypervisor_ids: Iterable[str]) -> dict[str, NodeUsage]:
    """Return what micro VMs and builds of images take on these nodes, by the node's id. Nodes without any are left
    out."""
    ids = list(hypervisor_ids)
    machines = union_all(
        *(
            select(model.hypervisor_id, model.memory_mb).where(model.hypervisor_id.in_(ids), model.ended_at.is_(None))
            for model in (Microvm, MicrovmImageBuild)
        )
    ).subquery()
    query = select(machines.c.hypervisor_id, func.count(), func.sum(machines.c.memory_mb))
    rows = session.execute(query.group_by(machines.c.hypervisor_id))
    return {str(hypervisor_id): NodeUsage(count, memory_mb) for hypervisor_id, count, memory_mb in rows}


def has_room(profile: MicrovmProfile, usage: NodeUsage, memory_mb: int) -> bool:
    """Return whether the profile allows one more micro VM of this size."""
    is_count_free = profile.max_microvms == 0 or usage.count < profile.max_microvms
    return is_count_free and (profile.max_memory_mb == 0 or usage.memory_mb + memory_mb <= profile.max_memory_mb)


def select_open_hosts(*groups: HypervisorGroup) -> Select[Hypervisor]:
    """Select the hypervisors of these locations on which new machines may be placed and whose profile is on."""
    is_enabled = MicrovmProfile.hypervisor_id == Hypervisor.id, MicrovmProfile.enabled
    return placement.select_open_hypervisors(*groups).where(select(MicrovmProfile.id).where(*is_enabled).exists())


def filter_by_profile(hosts: Sequence[Hypervisor], memory_mb: int) -> dict[Hypervisor, MicrovmProfile]:
    """Return the hosts whose profile has room for a micro VM of this size, with the profile."""
    hosts_by_id = {host.id: host for host in hosts}
    usage = count_usage(hosts_by_id)
    profiles = session.scalars(select(MicrovmProfile).where(MicrovmProfile.hypervisor_id.in_(hosts_by_id)))
    return {
        hosts_by_id[profile.hypervisor_id]: profile
        for profile in profiles
        if has_room(profile, usage.get(profile.hypervisor_id, NodeUsage()), memory_mb)
    }


def lock_capacities(
    group: HypervisorGroup, needs: placement.Requirements, internet: str = "ignored"
) -> list[placement.Capacity]:
    """Lock the location's hosts for micro VMs. Return the capacities of those whose profile has room, in the order in
    which they are tried.

    `internet`: whether the host's profile must allow internet access (`required`), or those that do are tried first
    (`preferred`). Raise `no_microvm_node` when there are no hosts.
    """
    hosts = placement.lock_hosts(select_open_hosts(group))
    if not hosts:
        raise no_node_error(NO_MICROVM_NODE_MESSAGE)
    profiles = filter_by_profile(hosts, needs.ram)
    connected = [host for host, profile in profiles.items() if profile.allows_internet_access]
    choices = {"ignored": [list(profiles)], "preferred": [connected, list(profiles)], "required": [connected]}
    return [placement.Capacity(candidates) for candidates in choices[internet]]


def choose_host(capacities: Iterable[placement.Capacity], needs: placement.Requirements) -> tuple[Hypervisor, Storage]:
    """Return a host with room, and its storage. Raise `no_microvm_node`."""
    for capacity in capacities:
        with suppress(Invalid):
            return capacity.choose_host(needs)
    raise no_node_error(NO_ROOM_MESSAGE)


def no_internet_error(field: str) -> Invalid:
    return Invalid(NO_INTERNET_NODE_MESSAGE, reason="no_internet_access", **{field: NO_INTERNET_NODE_MESSAGE})


def no_node_error(sentence: str) -> Invalid:
    return Invalid(sentence, reason="no_microvm_node", location_id=sentence)


def choose_locations_message(*, is_open: bool, has_hypervisor: bool) -> Message:
    """Return why no location takes a micro VM. `is_open`: one is open to them; `has_hypervisor`: a hypervisor of such a
    location takes micro VMs, but has no room."""
    if not is_open:
        return message("No location is open to micro VMs.")
    if not has_hypervisor:
        return message("No hypervisor takes micro VMs at the moment.")
    return message("No location has room at the moment.")


def find_available_groups(
    groups: Sequence[HypervisorGroup], needs: placement.Requirements, hosts: Sequence[Hypervisor] | None = None
) -> dict[str, bool]:
    """Return the ids of the locations in which a micro VM of this size can be placed now, and whether with internet
    access. The number of queries is constant. `hosts`: their open hosts, if they are known."""
    hosts = session.scalars(select_open_hosts(*groups)).all() if hosts is None else hosts
    profiles = filter_by_profile(hosts, needs.ram)
    capacity = placement.Capacity(list(profiles))
    connected = placement.Capacity([host for host, profile in profiles.items() if profile.allows_internet_access])
    return {
        group.id: not connected.restrict_to_group(group.id).placement_error(needs)
        for group in groups
        if not capacity.restrict_to_group(group.id).placement_error(needs)
    }
