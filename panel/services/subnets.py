"""Address space. An address is given out once: free means held by no interface and not reserved."""

import ipaddress
from types import SimpleNamespace

from sqlalchemy import case, func, insert, select
from sqlalchemy.orm import joinedload

from panel.core.db import new_id, session
from panel.core.errors import Conflict, Invalid
from panel.models import Address, Instance, Interface, Subnet
from panel.services import ipv6_prefixes
from panel.services.crud import ensure_unique_name, get_or_404, update_fields

MAX_IPV4_ADDRESSES = 65536
"""IPv4 subnets get a row for each address, so they may not be larger."""


def listing(search=None):
    query = select(Subnet).options(joinedload(Subnet.group)).order_by(Subnet.name, Subnet.id)
    if search:
        names = Subnet.name.icontains(search, autoescape=True) | Subnet.cidr.startswith(search, autoescape=True)
        query = query.where(names)
    return query


def get(subnet_id, field=None):
    return get_or_404(Subnet, subnet_id, "No such subnet.", field)


def create(group, *, name, cidr, gateway=None, nameservers=(), enabled=True, kind="public", delegated_length=None):
    """Adds a range of addresses to a location. The network, broadcast and gateway addresses are never given out, nor is
    the prefix that holds the gateway."""
    network = ipaddress.ip_network(cidr)
    if network.version == 4 and network.num_addresses > MAX_IPV4_ADDRESSES:
        raise Invalid("The subnet is too large.", cidr="An IPv4 subnet may have at most 65,536 addresses (/16).")
    if gateway and ipaddress.ip_address(gateway) not in network:
        raise Invalid("The gateway is not in the subnet.", gateway=f"Must lie in {network}.")
    delegated_length = ipv6_prefixes.get_prefix_length(network, kind, delegated_length)
    for other in session.scalars(select(Subnet)):
        if other.family == network.version and other.network.overlaps(network):
            raise Invalid("The subnet overlaps another one.", cidr=f"Overlaps {other.cidr} ({other.name}).")
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


def make_address_row(subnet, ip):
    """For an address or, in a routed subnet, a prefix."""
    first = ip.network_address if subnet.delegated_length else ip
    values = {"subnet_id": subnet.id, "ip": str(ip), "sort_key": first.packed.hex(), "length": subnet.delegated_length}
    return {"id": new_id(), **values}


def update(subnet, **changes):
    """Changes the name, the switch or the name servers: new machines get them. The range itself never changes."""
    if "name" in changes:
        ensure_unique_name(Subnet, changes["name"], exclude=subnet)
    return update_fields(subnet, changes)


def delete(subnet):
    if session.scalar(select_held(subnet).limit(1)):
        raise Conflict("Addresses of this subnet are in use. Destroy or move those instances first.")
    session.delete(subnet)
    session.flush()


def select_free(subnet):
    """The addresses that may be given out, lowest first."""
    return (
        select(Address)
        .where(Address.subnet_id == subnet.id, Address.interface_id.is_(None), Address.reserved.is_(False))
        .order_by(Address.sort_key)
    )


def select_held(subnet):
    return select(Address).where(Address.subnet_id == subnet.id, Address.interface_id.is_not(None))


HOLDER_LOAD_OPTION = joinedload(Address.interface).joinedload(Interface.instance)


def select_addresses(subnet, *, search=None, use=None):
    """Its addresses in order. `use` is `select_free`, `used` or `reserved`."""
    query = list_all_addresses(search=search).where(Address.subnet_id == subnet.id)
    wanted = {
        "free": Address.interface_id.is_(None) & Address.reserved.is_(False),
        "used": Address.interface_id.is_not(None),
        "reserved": Address.reserved.is_(True),
    }
    return query.where(wanted[use]) if use else query


def list_all_addresses(*, search=None):
    query = select(Address).options(HOLDER_LOAD_OPTION).order_by(Address.subnet_id, Address.sort_key)
    return query.where(Address.ip.startswith(search, autoescape=True)) if search else query


def add_address(subnet, *, ip, reserved=False, note=None):
    """Add an address, or a prefix of a routed subnet, that has no row."""
    network = ipaddress.ip_network(ip)
    length = subnet.delegated_length or network.max_prefixlen
    if network.version != subnet.family or not network.subnet_of(subnet.network) or network.prefixlen != length:
        kind = f"a /{length} prefix" if subnet.delegated_length else "an address"
        raise invalid_ip(f"Must be {kind} of {subnet.cidr}.")
    edges = {subnet.network.network_address}
    if subnet.family == 4:
        edges.add(subnet.network.broadcast_address)
    usable = subnet.delegated_length or subnet.network.num_addresses <= 2 or network.network_address not in edges
    if not usable or (subnet.gateway and ipaddress.ip_address(subnet.gateway) in network):
        raise invalid_ip("The network, broadcast and gateway addresses are never given out.")
    made = Address(
        **make_address_row(subnet, network if subnet.delegated_length else network.network_address),
        reserved=reserved,
        note=note,
    )
    if session.scalar(select(Address.id).where(Address.ip == made.ip)):
        raise invalid_ip("This address is listed already.")
    session.add(made)
    session.flush()
    return made


def invalid_ip(sentence):
    return Invalid("The address cannot be added.", ip=sentence)


def delete_address(address):
    """Remove an address that nobody holds, so that it is not given out."""
    session.refresh(address, with_for_update=True)  # somebody may be taking it at this moment
    if address.interface_id:
        raise Conflict(f"{address.ip} is in use. Release it from its instance first.", reason="address_in_use")
    session.delete(address)
    session.flush()


def get_address(address_id):
    return get_or_404(Address, address_id, "No such address.")


def get_statistics(subnet):
    """How many addresses there are and how they are used. `available` counts what `select_free` lists."""
    return count_addresses([subnet.id])[subnet.id]


def count_addresses(subnet_ids):
    """The same figures for many subnets, in one query."""
    number = lambda condition: func.sum(case((condition, 1), else_=0))  # noqa: E731
    held = Address.interface_id.is_not(None)
    figures = select(
        Address.subnet_id,
        func.count(),
        number(~held & ~Address.reserved),
        number(~held & Address.reserved),
        number(held),
    )
    found = {i: dict.fromkeys(("total", "available", "reserved", "used"), 0) for i in subnet_ids}
    for i, *row in session.execute(figures.where(Address.subnet_id.in_(subnet_ids)).group_by(Address.subnet_id)):
        found[i] = dict(zip(("total", "available", "reserved", "used"), row, strict=True))
    return found


def with_statistics(subnets):
    """Notes on each row its figures as `get_statistics`."""
    found = count_addresses([subnet.id for subnet in subnets])
    for subnet in subnets:
        subnet.statistics = SimpleNamespace(**found[subnet.id])
    return subnets


PUBLIC_IPV4 = (Subnet.family == 4, Subnet.kind == "public")


def get_ipv4_usage(hypervisor):
    """The public IPv4 addresses that a hypervisor's instances hold, and what its group has left."""
    held = select(func.count()).select_from(Address).join(Interface).join(Instance).join(Subnet)
    used = session.scalar(held.where(Instance.hypervisor_id == hypervisor.id, *PUBLIC_IPV4))
    pool = session.scalars(select(Subnet.id).where(Subnet.group_id == hypervisor.group_id, *PUBLIC_IPV4)).all()
    left = list(count_addresses(pool).values())
    return {"used": used, **{f"group_{key}": sum(each[key] for each in left) for key in ("total", "available")}}


def set_reserved(address, reserved, note=None):
    """Keeps an address from being given out, or lets it go again."""
    session.refresh(address, with_for_update=True)  # somebody may be taking it at this moment
    if reserved and address.interface_id:
        raise Conflict(f"{address.ip} is in use. It can be reserved once its instance is destroyed.")
    address.reserved, address.note = reserved, note
    session.flush()


def allocate(group, family, count, kind="public"):
    """Takes free addresses (of a routed kind prefixes) of a location for an interface, the lowest first; fewer than
    `count` when there are no more. Two requests at once never get the same one: each address is locked as it is chosen,
    and locked ones are passed over."""
    taken = []
    subnets = select(Subnet).where(Subnet.group_id == group.id, Subnet.family == family, Subnet.enabled)
    subnets = subnets.where(Subnet.kind == kind)
    for subnet in session.scalars(subnets.order_by(Subnet.name)):
        choice = select_free(subnet).limit(count - len(taken)).with_for_update(skip_locked=True)
        taken += session.scalars(choice).all()
        if family == 6:
            taken += create_fresh_addresses(subnet, count - len(taken))
        if len(taken) == count:
            break
    for address in taken:
        address.rdns = None
    return taken


def list_assigned_ahead(subnet):
    """Those that were given to somebody by name before their turn came: they have a row already."""
    if subnet.next_host >= subnet.room:
        return frozenset()
    first = make_address_row(subnet, subnet.nth(subnet.next_host))["sort_key"]
    rows = select(Address.ip).where(Address.subnet_id == subnet.id, Address.sort_key >= first)
    return frozenset(session.scalars(rows))


def create_fresh_addresses(subnet, count):
    """What of an IPv6 subnet was never given out: its rows are made when they are first needed."""
    if not count:
        return []
    session.refresh(subnet, with_for_update=True)
    made, kept, named = [], subnet.gateway and ipaddress.ip_address(subnet.gateway), list_assigned_ahead(subnet)
    while len(made) < count and subnet.next_host < subnet.room:
        ip = subnet.nth(subnet.next_host)
        subnet.next_host += 1
        if str(ip) not in named and (kept is None or kept not in ipaddress.ip_network(ip)):
            made.append(Address(**make_address_row(subnet, ip)))
    session.add_all(made)
    session.flush()
    return made
