"""The second network card of an instance: an interface of its own for a private address of the location."""

from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.models import Interface
from panel.services import address_allocation, audit, subnets
from panel.services.ids import random_mac, unused
from panel.services.state_machine import BUSY, WORDS

NOT_STOPPED = "The instance runs. Shut it down first: cards are added and removed while it is off."
NOT_AVAILABLE = "The location has no free private IPv4 address left."


def second_card(instance):
    """Return the card after the first one, or None."""
    return instance.interfaces[1] if len(instance.interfaces) > 1 else None


def enable(instance):
    """Add a second card with the next free private IPv4 address. Return the card, which may have been there."""
    refuse_while_in_use(instance)
    if found := second_card(instance):
        return found
    if instance.primary_interface is None:
        raise Conflict("The instance has no network card.")
    taken = subnets.take(instance.group, 4, 1, "private")
    if not taken:
        raise Invalid(NOT_AVAILABLE, reason="private_ipv4_not_available")
    card = Interface(
        mac=unused(Interface.mac, random_mac),
        kind="private",
        position=1,
        port_speed=instance.primary_interface.port_speed,
    )
    instance.interfaces.append(card)
    session.flush()
    address_allocation.hand(instance, card, taken)
    audit.touch(instance, fields=("interfaces", "addresses"))
    return card


def disable(instance):
    """Remove the second card and release its addresses. Do nothing without one."""
    refuse_while_in_use(instance)
    card = second_card(instance)
    if card is None:
        return
    if any(address.ip == instance.private_ipv4 for address in card.addresses):
        rest = [address for address in instance.primary_interface.addresses if address.kind == "private"]
        instance.private_ipv4 = rest[0].ip if rest else None
    for address in card.addresses:
        address.rdns = None
    instance.interfaces.remove(card)
    session.flush()
    session.expire(instance, ["interfaces"])
    audit.touch(instance, fields=("interfaces", "addresses"))


def refuse_while_in_use(instance):
    if instance.state == "migrating" or instance.rebuilding:
        raise Conflict(WORDS[BUSY], reason=BUSY)
    if instance.power == "on":
        raise Conflict(NOT_STOPPED, reason="not_stopped")
