"""The network of micro VMs: addresses, nameservers, and what their owners allow."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import CompoundSelect, select, union_all

from panel.core import jobs
from panel.core.db import on_commit, session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Hypervisor, Microvm, MicrovmImageBuild, MicrovmPoolMember, MicrovmProfile, Subnet
from panel.models.tasks import Task
from panel.services.crud import update_fields
from panel.services.firewall import WAITING_STATUSES

APPLY_TASK_KIND = task_kind("microvm_network_apply", "Network update")
CUSTOMER_FIELDS = ("allow_internet_access", "allow_out", "deny_out")

NO_INTERNET_MESSAGE = message("The micro VM has no internet access, and the operator allows none here.")


@dataclass(frozen=True)
class InterfaceSettings:
    """What a guest has to know of its network interface."""

    address: str
    """With the length of the prefix."""
    gateway: str
    nameservers: tuple[str, ...]


def allocate_address(profile: MicrovmProfile | None) -> str | None:
    """Return a free address on the profile's node, whose row the caller has locked. None: it offers no internet access.

    Raise Invalid when none is free.
    """
    if profile is None or not profile.allows_internet_access:
        return None
    used = set(session.scalars(select_connected(profile.hypervisor_id)))
    hosts = islice(ipaddress.ip_network(profile.address_range).hosts(), 1, None)
    address = next((host for host in map(str, hosts) if host not in used), None)
    if address is None:
        sentence = message("The hypervisor has no free address for micro VMs.")
        raise Invalid(sentence, reason="no_microvm_node", location_id=sentence)
    return address


def find_interface_settings(microvm: Microvm | MicrovmImageBuild) -> InterfaceSettings | None:
    """Return the settings for the guest, or None without an interface."""
    if microvm.address is None or microvm.profile is None:
        return None
    network = ipaddress.ip_network(microvm.profile.address_range)
    return InterfaceSettings(
        address=f"{microvm.address}/{network.prefixlen}",
        gateway=str(network[1]),
        nameservers=tuple(microvm.profile.nameservers),
    )


def find_last_update(microvm: Microvm) -> Task | None:
    """Return the latest task that updates the running guest's filter, unless a later action applied the row too."""
    query = select(Task).where(Task.resource_id == microvm.id, Task.kind == APPLY_TASK_KIND)
    task = session.scalars(query.order_by(Task.id.desc()).limit(1)).first()
    return task if task and task.id > (microvm.task_id or "") else None


def update(microvm: Microvm, changes: Mapping[str, Any], *, actor: str) -> Task | None:
    """Change `allow_internet_access`, `allow_out` or `deny_out`, also while the micro VM runs. Return the task, or None
    when there is no need.

    Raise Invalid when internet access or networks are to be allowed and the operator offers none.
    """
    for name in ("allow_internet_access", "allow_out"):
        if changes.get(name) and not microvm.is_internet_offered:
            raise Invalid(NO_INTERNET_MESSAGE, reason="no_internet_access", **{name: NO_INTERNET_MESSAGE})
    update_fields(microvm, dict(changes))
    return enqueue_apply(microvm, actor) if microvm.address is not None else None


def enqueue_apply(microvm: Microvm, actor: str) -> Task:
    """Request an update of the running guest's filter, or return the task that will read the row anyway."""
    query = select(Task).where(
        Task.resource_id == microvm.id, Task.kind == APPLY_TASK_KIND, Task.status.in_(WAITING_STATUSES)
    )
    waiting = session.scalars(query.with_for_update()).first()  # so that it does not start before this is committed
    return waiting or jobs.enqueue(
        APPLY_TASK_KIND, "microvm", microvm, lock="light", actor=actor, hypervisor_id=microvm.hypervisor_id
    )


def notify_refresh(hypervisor_id: str) -> None:
    """Have the node's network updated after the commit."""
    on_commit(lambda: jobs.enqueue_call("worker.tasks.microvm_network.refresh", hypervisor_id))


def list_subnets() -> list[str]:
    """Return the IPv4 networks of customers' machines."""
    return list(session.scalars(select(Subnet.cidr).where(Subnet.family == 4)))


def list_node_uris() -> list[str]:
    return list(session.scalars(select(Hypervisor.uri).distinct()))


def select_connected(hypervisor_id: Any) -> CompoundSelect[str | None]:
    """Select the addresses of the node's live micro VMs, image builds and members of warm pools."""
    queries = (
        select(Microvm.address).where(Microvm.hypervisor_id == hypervisor_id, Microvm.ended_at.is_(None)),
        select(MicrovmImageBuild.address).where(
            MicrovmImageBuild.hypervisor_id == hypervisor_id, MicrovmImageBuild.ended_at.is_(None)
        ),
        select(MicrovmPoolMember.address).where(MicrovmPoolMember.hypervisor_id == hypervisor_id),
    )
    return union_all(
        *(query.where(query.selected_columns.address.is_not(None)).correlate(MicrovmProfile) for query in queries)
    )


def list_connected_nodes() -> list[str]:
    """Return the nodes whose network of micro VMs is in use or may be."""
    in_use = select_connected(MicrovmProfile.hypervisor_id)
    query = select(MicrovmProfile.hypervisor_id).where(MicrovmProfile.allows_internet_access | in_use.exists())
    return list(session.scalars(query))


def ensure_range_is_possible(address_range: str, profile: MicrovmProfile | None = None) -> None:
    """Raise for a range that overlaps a subnet, and for a change while micro VMs have addresses of the present one."""
    in_use = select_connected(profile.hypervisor_id).limit(1) if profile else None
    if in_use is not None and session.scalar(in_use):
        raise Conflict(
            message("Micro VMs use addresses of the present range. Destroy them first."), reason="has_microvms"
        )
    for cidr in list_subnets():
        if ipaddress.ip_network(cidr).overlaps(ipaddress.ip_network(address_range)):
            sentence = message("Overlaps the subnet {cidr}.", cidr=cidr)
            raise Invalid(sentence, address_range=sentence)
