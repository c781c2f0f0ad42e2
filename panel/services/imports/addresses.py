"""The addresses of a machine that is adopted: those that its guest uses, when they are the location's and free."""

import ipaddress

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Address, Subnet
from panel.services import subnets

UNKNOWN_GUEST_ADDRESS_MESSAGE = "It is not known which address the guest uses. Name it, or send an empty list for none."


def list_reported_ips(hypervisor, machine, plan):
    """Those that the guest told of and that lie in subnets of the location. A plan with an address needs one."""
    known = [ip for nic in machine["nics"] for ip in nic["addresses"] if find_subnet(hypervisor, ip)]
    if not known and plan.ipv4 and hypervisor.group.public_networking_enabled:
        raise Invalid(UNKNOWN_GUEST_ADDRESS_MESSAGE, ips=UNKNOWN_GUEST_ADDRESS_MESSAGE)
    return known


def find_subnet(hypervisor, ip):
    """The subnet of the location that the address lies in; none of prefixes."""
    address = ipaddress.ip_address(ip)
    mine = Subnet.group_id == hypervisor.group_id, Subnet.family == address.version, Subnet.kind != "routed"
    return next((subnet for subnet in session.scalars(select(Subnet).where(*mine)) if address in subnet.network), None)


def get_free_addresses(hypervisor, ips):
    """The rows of these addresses, locked; raises which one cannot be had, and why."""
    return [get_free_address(hypervisor, str(ipaddress.ip_address(ip))) for ip in ips]


def get_free_address(hypervisor, ip):
    subnet = find_subnet(hypervisor, ip)
    if subnet is None:
        raise invalid_address(ip, "lies in no subnet of the location")
    if not hypervisor.group.public_networking_enabled and subnet.kind != "private":
        raise invalid_address(ip, "is public, and the location gives private addresses only")
    locked = select(Address).where(Address.ip == ip).with_for_update(of=Address)
    found = session.scalar(locked.execution_options(populate_existing=True))
    if found is None:
        return create_address(subnet, ip)
    if found.interface_id:
        raise invalid_address(ip, f"is in use by {found.interface.instance.name}")
    if found.reserved:
        raise invalid_address(ip, "is reserved. Let it go first")
    return found


def create_address(subnet, ip):
    """An IPv6 address has no row before it is first used. The network's own and the router's are nobody's."""
    address = ipaddress.ip_address(ip)
    if subnet.family == 4 or ip == subnet.gateway or address == subnet.network.network_address:
        raise invalid_address(ip, "is never given out")
    made = Address(**subnets.make_address_row(subnet, address))
    session.add(made)
    session.flush()
    return made


def invalid_address(ip, reason):
    sentence = f"{ip} {reason}."
    return Invalid("One of the addresses cannot be had.", ips=sentence)
