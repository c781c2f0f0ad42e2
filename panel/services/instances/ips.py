"""The addresses of an instance: more of them, fewer, which one it is known by, and the names wanted for them.

The node lets the guest use a new address at once, and a released one no more. The guest itself is told of its addresses
at a deploy; until the next one it takes up a further address by its own configuration.
"""

from sqlalchemy import or_, select

from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.models import Address, Interface, Subnet
from panel.services import address_allocation, audit, firewall
from panel.services.state_machine import REASONS, TASK_RUNNING


def change_addresses(instance, *, action, actor, ips=(), family=4, kind="public", count=1, by_operator=False):
    """Does `add`, `remove` or `set-primary`. Returns the addresses that it was about. What is added is of the `kind` of
    a subnet, and with it of its family; only of the public one there are two."""
    if instance.migrating:
        raise Conflict(REASONS[TASK_RUNNING], reason=TASK_RUNNING)
    card = lock_interface(instance)
    if action == "add" and ips and by_operator:
        taken = get_named_addresses(instance, ips)
        address_allocation.assign(instance, card, taken)
    elif action == "add":
        taken = allocate_next(instance, address_allocation.get_entitlement(kind, family), count, by_operator)
    else:
        taken = get_held_addresses(instance, ips)
        for address in taken:
            (release if action == "remove" else make_primary)(instance, address)
    session.flush()
    audit.track(instance, fields=("addresses",))
    if action != "set-primary":
        firewall.apply_after_address_change(instance, actor)
    return taken


def lock_interface(instance):
    """The card for addresses, locked: two requests at once do not both take the last address that the plan allows."""
    cards = select(Interface).where(
        Interface.instance_id == instance.id, Interface.kind.in_(address_allocation.ADDRESS_INTERFACE_KINDS)
    )
    card = session.scalar(cards.order_by(Interface.position).with_for_update())
    if card is None:
        raise Conflict("The instance has no network card.")
    session.expire(card, ["addresses", "prefixes"])
    return card


def allocate_next(instance, promise, count, by_operator):
    """The next free ones. Customers get as many as the plan comes with."""
    have, allowed = len(promise.held(instance)), promise.entitled(instance.plan)
    if not by_operator and have + count > allowed:
        what = promise.text if allowed == 1 else f"{promise.text}es"
        sentence = f"The plan comes with {allowed} {what}, and the instance has {have}."
        raise Invalid(sentence, count=sentence)
    return address_allocation.allocate(instance, promise, count, reason=f"{promise.word}_not_available")


def get_named_addresses(instance, ips):
    """Free addresses of the instance's location that were named, by their ids or as they are written."""
    wanted = select(Address).join(Subnet).where(Subnet.group_id == instance.group_id)
    wanted = wanted.where(or_(Address.id.in_(ips), Address.ip.in_(ips))).with_for_update(of=Address)
    found = session.scalars(wanted.execution_options(populate_existing=True)).all()
    if len(found) < len(set(ips)):
        raise Invalid("One of the addresses is not of this location.", ips="There is no such address in the location.")
    for address in found:
        if address.interface_id or address.reserved:
            raise Invalid(f"{address.ip} is not free.", ips=f"{address.ip} is in use or reserved.")
        address.rdns = None
    return found


def get_held_addresses(instance, ips):
    every = (*instance.addresses, *instance.prefixes)
    mine = {word: address for address in every for word in (address.id, address.ip)}
    if not ips or set(ips) - mine.keys():
        raise Invalid("Name addresses of this instance.", ips="The instance does not have this address.")
    return list({mine[word].id: mine[word] for word in ips}.values())


def release(instance, address):
    if address.is_primary:
        promise = address_allocation.get_entitlement_of(address)
        if len(promise.held(instance)) > 1:
            raise Invalid("This is the primary address.", ips="Make another address the primary one first.")
        setattr(instance, promise.primary, None)
    address.interface_id = address.rdns = None
    session.flush()
    session.expire(address, ["interface"])
    for card in instance.interfaces:
        session.expire(card, ["addresses", "prefixes"])


def make_primary(instance, address):
    primary = address_allocation.get_entitlement_of(address).primary
    if primary is None:
        raise Invalid("An instance is not known by a prefix.", ips="A prefix cannot be the primary address.")
    setattr(instance, primary, address.ip)


def get(instance, address_id):
    """The address, if the instance has it."""
    address = next((each for each in instance.addresses if each.id == address_id), None)
    if address is None:
        raise NotFound("No such address.")
    return address


def set_reverse_name(address, rdns):
    """Notes the name that reverse DNS is to tell for the address; None for none. Whoever serves the zone reads it."""
    if address.length:
        raise Conflict("Names are for single addresses, not for prefixes.")
    address.rdns = rdns or None
    session.flush()
    return address
