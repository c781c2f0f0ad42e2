"""Address space. An address is assigned once: it is free while no interface holds it and it is not reserved."""

import ipaddress
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from sqlalchemy import Select, func, insert, or_, select
from sqlalchemy.orm import joinedload, undefer_group

from panel.core.db import generate_id, refresh_with_lock, session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import Address, Hypervisor, HypervisorGroup, Instance, Interface, Subnet
from panel.services import ipv6_prefixes
from panel.services.crud import ensure_unique_name, get_or_404, update_fields
from panel.services.search_kinds import (
    HasPrefix,
    contains_text,
    is_address,
    list_networks,
    platform_search,
    starts_with,
)

MAX_IPV4_ADDRESSES = 65536
"""Maximum size of an IPv4 subnet, because each of its addresses has a row."""


def listing(search: str | None = None) -> Select[Subnet]:
    query = select(Subnet).options(joinedload(Subnet.group)).order_by(Subnet.name, Subnet.id)
    if search:
        names = Subnet.name.icontains(search, autoescape=True) | Subnet.cidr.startswith(search, autoescape=True)
        query = query.where(names)
    return query


def get(subnet_id: str, error_field: str | None = None) -> Subnet:
    return get_or_404(Subnet, subnet_id, message("No such subnet."), error_field)


def create(
    group: HypervisorGroup,
    *,
    name: str,
    cidr: str,
    gateway: str | None = None,
    nameservers: Iterable[str] = (),
    enabled: bool = True,
    kind: str = "public",
    delegated_length: int | None = None,
) -> Subnet:
    """Add a range of addresses to a location.

    The network, broadcast and gateway addresses are never assigned, nor is the prefix that contains the gateway.
    """
    network = ipaddress.ip_network(cidr)
    if network.version == 4 and network.num_addresses > MAX_IPV4_ADDRESSES:
        raise Invalid(
            message("The subnet is too large."), cidr=message("An IPv4 subnet may have at most 65,536 addresses (/16).")
        )
    if gateway and ipaddress.ip_address(gateway) not in network:
        raise Invalid(
            message("The gateway is not in the subnet."), gateway=message("Must lie in {network}.", network=network)
        )
    delegated_length = ipv6_prefixes.get_prefix_length(network, kind, delegated_length)
    for other in session.scalars(select(Subnet)):
        if other.family == network.version and other.network.overlaps(network):
            raise Invalid(
                message("The subnet overlaps another one."),
                cidr=message("Overlaps {cidr} ({other}).", cidr=other.cidr, other=other.name),
            )
    ensure_unique_name(Subnet, name)
    subnet = Subnet(
        name=name,
        group_id=group.id,
        family=network.version,
        kind=kind,
        delegated_length=delegated_length,
        next_host=0 if delegated_length else 1,
        cidr=str(network),
        gateway=gateway,
        nameservers=list(nameservers),
        enabled=enabled,
    )
    session.add(subnet)
    session.flush()
    if network.version == 4:
        rows = [make_address_row(subnet, ip) for ip in network.hosts() if str(ip) != gateway]
        session.execute(insert(Address), rows) if rows else None
    return subnet


def make_address_row(subnet: Subnet, ip: IPv4Address | IPv6Address | IPv4Network | IPv6Network) -> dict[str, Any]:
    """Return the values of an address or, in a routed subnet, of a prefix."""
    first = ip.network_address if isinstance(ip, IPv4Network | IPv6Network) else ip
    values = {"subnet_id": subnet.id, "ip": str(ip), "sort_key": first.packed.hex(), "length": subnet.delegated_length}
    return {"id": generate_id(), **values}


def update(subnet: Subnet, **changes: Any) -> Subnet:
    """Change the name, the switch or the name servers, for new machines. The range itself never changes."""
    if "name" in changes:
        ensure_unique_name(Subnet, changes["name"], exclude=subnet)
    return update_fields(subnet, changes)


def delete(subnet: Subnet) -> None:
    if session.scalar(select_held(subnet).limit(1)):
        raise Conflict(message("Addresses of this subnet are in use. Destroy or move those instances first."))
    session.delete(subnet)
    session.flush()


def select_free(subnet: Subnet) -> Select[Address]:
    """Select the addresses that may be assigned, lowest first."""
    return (
        select(Address)
        .where(Address.subnet_id == subnet.id, Address.interface_id.is_(None), Address.reserved.is_(False))
        .order_by(Address.sort_key)
    )


def select_held(subnet: Subnet) -> Select[Address]:
    return select(Address).where(Address.subnet_id == subnet.id, Address.interface_id.is_not(None))


HOLDER_LOAD_OPTION = joinedload(Address.interface).joinedload(Interface.instance)


def select_addresses(subnet: Subnet, *, search: str | None = None, use: str | None = None) -> Select[Address]:
    """Select the subnet's addresses in order. `use` is `free`, `used` or `reserved`."""
    query = list_all_addresses(search=search).where(Address.subnet_id == subnet.id)
    conditions = {
        "free": Address.interface_id.is_(None) & Address.reserved.is_(False),
        "used": Address.interface_id.is_not(None),
        "reserved": Address.reserved.is_(True),
    }
    return query.where(conditions[use]) if use else query


def list_all_addresses(*, search: str | None = None) -> Select[Address]:
    query = select(Address).options(HOLDER_LOAD_OPTION).order_by(Address.subnet_id, Address.sort_key)
    return query.where(Address.ip.startswith(search, autoescape=True)) if search else query


def add_address(subnet: Subnet, *, ip: str, reserved: bool = False, note: str | None = None) -> Address:
    """Add an address, or a prefix of a routed subnet, that has no row."""
    network = ipaddress.ip_network(ip)
    length = subnet.delegated_length or network.max_prefixlen
    if network.network_address not in subnet.network or network.prefixlen != length:
        kind = message("a /{length} prefix", length=length) if subnet.delegated_length else message("an address")
        raise build_ip_error(message("Must be {kind} of {cidr}.", kind=kind, cidr=subnet.cidr))
    edges = {subnet.network.network_address}
    if subnet.family == 4:
        edges.add(subnet.network.broadcast_address)
    usable = subnet.delegated_length or subnet.network.num_addresses <= 2 or network.network_address not in edges
    if not usable or (subnet.gateway and ipaddress.ip_address(subnet.gateway) in network):
        raise build_ip_error(message("The network, broadcast and gateway addresses are never given out."))
    address = Address(
        **make_address_row(subnet, network if subnet.delegated_length else network.network_address),
        reserved=reserved,
        note=note,
    )
    if session.scalar(select(Address.id).where(Address.ip == address.ip)):
        raise build_ip_error(message("This address is already listed."))
    session.add(address)
    session.flush()
    return address


def build_ip_error(sentence: str) -> Invalid:
    return Invalid(message("The address cannot be added."), ip=sentence)


def delete_address(address: Address) -> None:
    """Delete the row of an unused address, so that it is not assigned."""
    refresh_with_lock(address)  # another request may be assigning it
    if address.interface_id:
        raise Conflict(
            message("{ip} is in use. Release it from its instance first.", ip=address.ip), reason="address_in_use"
        )
    session.delete(address)
    session.flush()


def get_address(address_id: str) -> Address:
    return get_or_404(Address, address_id, message("No such address."))


def with_statistics(query: Select[Subnet]) -> Select[Subnet]:
    """Load with each subnet how many addresses it has, and how they are used."""
    return query.options(undefer_group("statistics"))


PUBLIC_IPV4 = (Subnet.family == 4, Subnet.kind == "public")


def get_ipv4_usage(hypervisor: Hypervisor) -> dict[str, int]:
    """Return how many public IPv4 addresses a hypervisor's instances use, and the total and free ones of its group."""
    query = select(func.count()).select_from(Address).join(Interface).join(Instance).join(Subnet)
    used = session.scalars(query.where(Instance.hypervisor_id == hypervisor.id, *PUBLIC_IPV4)).one()
    totals = select(func.sum(Subnet.addresses_count), func.sum(Subnet.available_count))
    total, available = session.execute(totals.where(Subnet.group_id == hypervisor.group_id, *PUBLIC_IPV4)).one()
    return {"used": used, "group_total": total or 0, "group_available": available or 0}


def set_reserved(address: Address, reserved: bool, note: str | None = None) -> None:
    """Reserve an address, so that it is not assigned, or end its reservation."""
    refresh_with_lock(address)  # another request may be assigning it
    if reserved and address.interface_id:
        raise Conflict(message("{ip} is in use. It can be reserved once its instance is destroyed.", ip=address.ip))
    address.reserved, address.note = reserved, note
    session.flush()


def allocate(group: HypervisorGroup, family: int, count: int, kind: str = "public") -> list[Address]:
    """Return free addresses (prefixes of a routed kind) of a location for an interface, lowest first.

    They are fewer than `count` if there are no more. Each address is locked as it is chosen and locked ones are
    skipped, so concurrent requests never get the same one.
    """
    addresses: list[Address] = []
    subnets = select(Subnet).where(Subnet.group_id == group.id, Subnet.family == family, Subnet.enabled)
    subnets = subnets.where(Subnet.kind == kind)
    for subnet in session.scalars(subnets.order_by(Subnet.name)):
        query = select_free(subnet).limit(count - len(addresses)).with_for_update(skip_locked=True)
        addresses += session.scalars(query).all()
        if family == 6:
            addresses += create_fresh_addresses(subnet, count - len(addresses))
        if len(addresses) == count:
            break
    for address in addresses:
        address.rdns = None
    return addresses


def list_assigned_ahead(subnet: Subnet) -> frozenset[str]:
    """Return the addresses at or after `next_host` that have a row already, because they were assigned by name."""
    if subnet.next_host >= subnet.room:
        return frozenset()
    first = make_address_row(subnet, subnet.get_by_number(subnet.next_host))["sort_key"]
    rows = select(Address.ip).where(Address.subnet_id == subnet.id, Address.sort_key >= first)
    return frozenset(session.scalars(rows))


def create_fresh_addresses(subnet: Subnet, count: int) -> list[Address]:
    """Create the rows of addresses of an IPv6 subnet that were never assigned.

    IPv6 subnets are too large for a row for every address.
    """
    if not count:
        return []
    refresh_with_lock(subnet)
    rows: list[Address] = []
    gateway, assigned = subnet.gateway and ipaddress.ip_address(subnet.gateway), list_assigned_ahead(subnet)
    while len(rows) < count and subnet.next_host < subnet.room:
        ip = subnet.get_by_number(subnet.next_host)
        subnet.next_host += 1
        if str(ip) not in assigned and (gateway is None or gateway not in ipaddress.ip_network(ip)):
            rows.append(Address(**make_address_row(subnet, ip)))
    session.add_all(rows)
    session.flush()
    return rows


@platform_search("subnet", permission="admin:subnets:read", position=50)
def select_by_any_name(text: str) -> Select[str, str, str]:
    """Select by name, the beginning of the network, or an address in it."""
    conditions = (contains_text(Subnet.name, text), starts_with(Subnet.cidr, text.lower()))
    condition = or_(*conditions, Subnet.cidr.in_(list_networks(text)))
    return select(Subnet.id, Subnet.name, Subnet.cidr).where(condition).order_by(Subnet.name)


@platform_search("address", permission="admin:subnets:read", position=60)
def select_by_address(text: str) -> Select[str, str, str | None] | None:
    """Select the subnet's id, the address, and the instance that has it."""
    if not is_address(text):
        return None
    query = select(Address.subnet_id, Address.ip, Instance.display_name).where(HasPrefix(Address.ip, text.lower()))
    query = query.outerjoin(Interface, Interface.id == Address.interface_id)
    return query.outerjoin(Instance, Instance.id == Interface.instance_id).order_by(Address.ip)
