"""Address space. An address is given out once: free means held by no interface and not reserved."""

import ipaddress

from sqlalchemy import func, insert, select

from panel.db import new_id, session
from panel.errors import Conflict, Invalid, NotFound
from panel.models import Address, Subnet

LARGEST = 65536
"""IPv4 subnets get a row for each address, so they may not be larger."""


def listing():
    return select(Subnet).order_by(Subnet.name, Subnet.id)


def get(subnet_id):
    subnet = session.get(Subnet, subnet_id)
    if subnet is None:
        raise NotFound("No such subnet.")
    return subnet


def create(group, *, name, cidr, gateway=None, nameservers=()):
    """Adds a range of addresses to a location. The network, broadcast and gateway addresses are never given out."""
    network = ipaddress.ip_network(cidr)
    if network.version == 4 and network.num_addresses > LARGEST:
        raise Invalid("The subnet is too large.", cidr="An IPv4 subnet may have at most 65,536 addresses (/16).")
    if gateway and ipaddress.ip_address(gateway) not in network:
        raise Invalid("The gateway is not in the subnet.", gateway=f"Must lie in {network}.")
    for other in session.scalars(select(Subnet)):
        if other.family == network.version and other.network.overlaps(network):
            raise Invalid("The subnet overlaps another one.", cidr=f"Overlaps {other.cidr} ({other.name}).")
    if session.scalar(select(Subnet.id).where(Subnet.name == name)):
        raise Invalid("There is a subnet of this name.", name="This name is taken.")
    subnet = Subnet(
        name=name,
        group_id=group.id,
        family=network.version,
        cidr=str(network),
        gateway=gateway,
        nameservers=list(nameservers),
    )
    session.add(subnet)
    session.flush()
    if network.version == 4:
        rows = [row(subnet, ip) for ip in network.hosts() if str(ip) != gateway]
        session.execute(insert(Address), rows) if rows else None
    return subnet


def row(subnet, ip):
    return {"id": new_id(), "subnet_id": subnet.id, "ip": str(ip), "sort_key": ip.packed.hex()}


def delete(subnet):
    if session.scalar(held(subnet).limit(1)):
        raise Conflict("Addresses of this subnet are in use. Destroy or move those instances first.")
    session.delete(subnet)


def free(subnet):
    """The addresses that may be given out, lowest first."""
    return (
        select(Address)
        .where(Address.subnet_id == subnet.id, Address.interface_id.is_(None), Address.reserved.is_(False))
        .order_by(Address.sort_key)
    )


def held(subnet):
    return select(Address).where(Address.subnet_id == subnet.id, Address.interface_id.is_not(None))


def addresses(subnet):
    return select(Address).where(Address.subnet_id == subnet.id).order_by(Address.sort_key)


def statistics(subnet):
    """How many addresses there are and how they are used. `available` counts what `free` lists."""
    count = lambda query: session.scalar(select(func.count()).select_from(query.order_by(None).subquery()))  # noqa: E731
    reserved = Address.subnet_id == subnet.id, Address.reserved
    return {
        "total": count(addresses(subnet)),
        "available": count(free(subnet)),
        "reserved": session.scalar(select(func.count()).where(*reserved)),
        "used": count(held(subnet)),
    }


def reserve(address, reserved, note=None):
    """Keeps an address from being given out, or lets it go again."""
    if reserved and address.interface_id:
        raise Conflict(f"{address.ip} is in use.")
    address.reserved, address.note = reserved, note


def take(group, family, count):
    """Takes free addresses of a location for an interface; fewer than `count` when there are no more. Two requests at
    once never get the same one: each address is locked as it is chosen, and locked ones are passed over."""
    taken = []
    subnets = select(Subnet).where(Subnet.group_id == group.id, Subnet.family == family, Subnet.enabled)
    for subnet in session.scalars(subnets.order_by(Subnet.name)):
        choice = free(subnet).limit(count - len(taken)).with_for_update(skip_locked=True)
        taken += session.scalars(choice).all()
        if family == 6:
            taken += fresh(subnet, count - len(taken))
        if len(taken) == count:
            break
    return taken


def fresh(subnet, count):
    """Addresses of an IPv6 subnet that were never given out: its rows are made when they are first needed."""
    if not count:
        return []
    session.refresh(subnet, with_for_update=True)
    network, made = subnet.network, []
    while len(made) < count and subnet.next_host < network.num_addresses:
        ip = network[subnet.next_host]
        subnet.next_host += 1
        if str(ip) != subnet.gateway:
            made.append(Address(**row(subnet, ip)))
    session.add_all(made)
    session.flush()
    return made
