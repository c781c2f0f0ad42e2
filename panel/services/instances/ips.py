"""The addresses of an instance: adding and releasing them, choosing primary ones, and reverse names.

The node allows a new address at once and stops allowing a released one. The guest is configured with its addresses at a
deploy; until the next one a further address has to be configured in the guest.
"""

from collections.abc import Sequence

from sqlalchemy import or_, select

from panel.core.db import session, with_lock
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.models import Address, Instance, Interface, Subnet
from panel.services import address_allocation, address_log, audit, firewall
from panel.services.address_allocation import AddressEntitlement
from panel.services.state_machine import TASK_RUNNING, make_problem


def change_addresses(
    instance: Instance,
    *,
    action: str,
    actor: str,
    ips: Sequence[str] = (),
    family: int = 4,
    kind: str = "public",
    count: int = 1,
    by_operator: bool = False,
) -> list[Address]:
    """Run `add`, `remove` or `set-primary` and return the affected addresses. `kind` of a subnet and `family` select
    what is added; the family matters for `public` only."""
    if instance.migrating:
        raise make_problem(TASK_RUNNING)
    interface = lock_interface(instance)
    if action == "add" and ips and by_operator:
        addresses = get_named_addresses(instance, ips)
        address_allocation.assign(instance, interface, addresses)
    elif action == "add":
        addresses = allocate_next(instance, address_allocation.get_entitlement(kind, family), count, by_operator)
    else:
        addresses = get_held_addresses(instance, ips)
        for address in addresses:
            (release if action == "remove" else make_primary)(instance, address)
    session.flush()
    audit.track(instance, fields=("addresses",))
    if action != "set-primary":
        firewall.apply_after_address_change(instance, actor)
    return addresses


def lock_interface(instance: Instance) -> Interface:
    """Return the interface for addresses, locked, so that concurrent requests cannot exceed the plan's number of
    addresses."""
    query = select(Interface).where(
        Interface.instance_id == instance.id, Interface.kind.in_(address_allocation.ADDRESS_INTERFACE_KINDS)
    )
    interface = session.scalar(query.order_by(Interface.position).with_for_update())
    if interface is None:
        raise Conflict(message("The instance has no network card."))
    session.expire(interface, ["addresses", "prefixes"])
    return interface


def allocate_next(instance: Instance, entitlement: AddressEntitlement, count: int, by_operator: bool) -> list[Address]:
    """Assign the next free addresses. Customers get as many as the plan includes."""
    allocated_count, allowed = len(entitlement.list_allocated(instance)), entitlement.get_entitled_count(instance.plan)
    if not by_operator and allocated_count + count > allowed:
        sentence = message(
            "The plan includes {allowed} addresses of this kind ({kind}), and the instance has {held}.",
            allowed=allowed,
            kind=entitlement.text,
            held=allocated_count,
        )
        raise Invalid(sentence, count=sentence)
    return address_allocation.allocate(instance, entitlement, count, reason=f"{entitlement.word}_not_available")


def get_named_addresses(instance: Instance, ips: Sequence[str]) -> list[Address]:
    """Return free addresses of the instance's location, given by id or by address."""
    query = select(Address).join(Subnet).where(Subnet.group_id == instance.group_id)
    query = query.where(or_(Address.id.in_(ips), Address.ip.in_(ips)))
    addresses = list(session.scalars(with_lock(query, of=Address)))
    if len(addresses) < len(set(ips)):
        raise Invalid(
            message("One of the addresses is not of this location."),
            ips=message("There is no such address in the location."),
        )
    for address in addresses:
        if address.interface_id or address.reserved:
            raise Invalid(
                message("{ip} is not free.", ip=address.ip), ips=message("{ip} is in use or reserved.", ip=address.ip)
            )
        address.rdns = None
    return addresses


def get_held_addresses(instance: Instance, ips: Sequence[str]) -> list[Address]:
    all_addresses = (*instance.addresses, *instance.prefixes)
    by_key = {key: address for address in all_addresses for key in (address.id, address.ip)}
    if not ips or set(ips) - by_key.keys():
        raise Invalid(
            message("Name addresses of this instance."), ips=message("The instance does not have this address.")
        )
    return list({by_key[key].id: by_key[key] for key in ips}.values())


def release(instance: Instance, address: Address) -> None:
    entitlement = address_allocation.get_entitlement_of(address)
    if entitlement.primary and address.is_primary:
        if len(entitlement.list_allocated(instance)) > 1:
            raise Invalid(
                message("This is the primary address."), ips=message("Make another address the primary one first.")
            )
        setattr(instance, entitlement.primary, None)
    address.interface_id = address.rdns = None
    address_log.record_released(instance, [address])
    session.flush()
    session.expire(address, ["interface"])
    for interface in instance.interfaces:
        session.expire(interface, ["addresses", "prefixes"])


def make_primary(instance: Instance, address: Address) -> None:
    primary = address_allocation.get_entitlement_of(address).primary
    if primary is None:
        raise Invalid(
            message("A prefix cannot be the primary address."), ips=message("A prefix cannot be the primary address.")
        )
    setattr(instance, primary, address.ip)


def get(instance: Instance, address_id: str) -> Address:
    """Return the address, if the instance has it."""
    address = next((row for row in instance.addresses if row.id == address_id), None)
    if address is None:
        raise NotFound(message("No such address."))
    return address


def set_reverse_name(address: Address, rdns: str | None) -> Address:
    """Store the reverse DNS name of the address; None for none. The server of the zone reads it."""
    if address.length:
        raise Conflict(message("Names are for single addresses, not for prefixes."))
    address.rdns = rdns or None
    session.flush()
    return address
