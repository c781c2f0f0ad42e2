"""The addresses of an imported machine: those that its guest uses, when they belong to the location and are free."""

import ipaddress
from collections.abc import Iterable
from typing import Any

from sqlalchemy import select

from panel.core.db import session, with_lock
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Address, Hypervisor, Plan, Subnet
from panel.services import subnets

UNKNOWN_GUEST_ADDRESS_MESSAGE = message(
    "It is not known which address the guest uses. Name it, or send an empty list for none."
)


def list_reported_ips(hypervisor: Hypervisor, machine: dict[str, Any], plan: Plan) -> list[str]:
    """Return the addresses that the guest reported and that are in subnets of the location. Raise when there are none
    and the plan includes a public IPv4 address."""
    ips = [ip for nic in machine["nics"] for ip in nic["addresses"] if find_subnet(hypervisor, ip)]
    if not ips and plan.ipv4 and hypervisor.group.public_networking_enabled:
        raise Invalid(UNKNOWN_GUEST_ADDRESS_MESSAGE, ips=UNKNOWN_GUEST_ADDRESS_MESSAGE)
    return ips


def find_subnet(hypervisor: Hypervisor, ip: str) -> Subnet | None:
    """Return the location's subnet that contains the address, or None. Subnets of prefixes are left out."""
    address = ipaddress.ip_address(ip)
    conditions = Subnet.group_id == hypervisor.group_id, Subnet.family == address.version, Subnet.kind != "routed"
    return next(
        (subnet for subnet in session.scalars(select(Subnet).where(*conditions)) if address in subnet.network), None
    )


def get_free_addresses(hypervisor: Hypervisor, ips: Iterable[str]) -> list[Address]:
    """Return the rows of these addresses, locked. Raise with the reason when one cannot be used."""
    return [get_free_address(hypervisor, str(ipaddress.ip_address(ip))) for ip in ips]


def get_free_address(hypervisor: Hypervisor, ip: str) -> Address:
    subnet = find_subnet(hypervisor, ip)
    if subnet is None:
        raise build_address_error(message("{ip} is in no subnet of the location.", ip=ip))
    if not hypervisor.group.public_networking_enabled and subnet.kind != "private":
        raise build_address_error(message("{ip} is public, and the location has private addresses only.", ip=ip))
    row = session.scalar(with_lock(select(Address).where(Address.ip == ip), of=Address))
    if row is None:
        return create_address(subnet, ip)
    if row.interface:
        raise build_address_error(message("{ip} is in use by {instance}.", ip=ip, instance=row.interface.instance.name))
    if row.reserved:
        raise build_address_error(message("{ip} is reserved. Release it first.", ip=ip))
    return row


def create_address(subnet: Subnet, ip: str) -> Address:
    """Create the row of an IPv6 address, which has none before its first use. Raise for the addresses of the network
    and of the router."""
    address = ipaddress.ip_address(ip)
    if subnet.family == 4 or ip == subnet.gateway or address == subnet.network.network_address:
        raise build_address_error(message("{ip} is never assigned.", ip=ip))
    row = Address(**subnets.make_address_row(subnet, address))
    session.add(row)
    session.flush()
    return row


def build_address_error(sentence: str) -> Invalid:
    return Invalid(message("One of the addresses cannot be used."), ips=sentence)
