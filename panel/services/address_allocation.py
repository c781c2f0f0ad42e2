"""The addresses that a plan promises (specification 7.2): public IPv4 and IPv6 addresses, prefixes, private IPv4 ones.

All of an instance's addresses are on one card. A private one is a further address of it, from a subnet that only the
location knows: no second network has to reach every hypervisor, and one that is added works without a new card. A
location without public networking gives private addresses alone, on a card of the kind `private`.
"""

from dataclasses import dataclass

from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.models import Interface
from panel.services import subnets
from panel.services.ids import generate_unique, random_mac


@dataclass(frozen=True)
class AddressEntitlement:
    """One kind of address. It is called like the plan's field that says how many of it there are."""

    field: str
    kind: str
    """Of the subnets that it is taken from."""
    family: int
    word: str
    """What it is called in reasons."""
    text: str
    """What people call one of it."""
    primary: str | None = None
    """The instance's field that names the first one."""

    def held(self, instance):
        """Those that the instance has."""
        found = instance.prefixes if self.kind == "routed" else instance.addresses
        return [each for each in found if (each.family, each.kind) == (self.family, self.kind)]

    def entitled(self, plan):
        return getattr(plan, self.field)


ADDRESS_ENTITLEMENTS = (
    AddressEntitlement("ipv4", "public", 4, "ipv4", "IPv4 address", "ipv4"),
    AddressEntitlement("ipv6", "public", 6, "ipv6", "IPv6 address", "ipv6"),
    AddressEntitlement("ipv6_prefixes", "routed", 6, "ipv6_subnet", "IPv6 prefix"),
    AddressEntitlement("private_ipv4", "private", 4, "private_ipv4", "private IPv4 address", "private_ipv4"),
)


ADDRESS_INTERFACE_KINDS = ("public", "private")


def get_entitlement(kind, family):
    """The promise for this kind. Only of the public one there are two families."""
    return next(
        each for each in ADDRESS_ENTITLEMENTS if each.kind == kind and (kind != "public" or each.family == family)
    )


def get_entitlement_of(address):
    return get_entitlement(address.kind, address.family)


def get_usage(instance):
    """Each promise with how many the instance has, and how many its plan comes with."""
    return [(each, len(each.held(instance)), each.entitled(instance.plan)) for each in ADDRESS_ENTITLEMENTS]


def allocate(instance, entitlement, count, *, reason, field=None):
    """Takes free ones and gives them to the instance; raises, with the reason, when there are fewer."""
    taken = subnets.allocate(instance.group, entitlement.family, count, entitlement.kind)
    if len(taken) < count:
        sentence = f"The location has no free {entitlement.text} left."
        raise Invalid(sentence, reason=reason, **({field: sentence} if field else {}))
    assign(instance, find_interface(instance), taken)
    return taken


def assign(instance, interface, addresses):
    """Puts the addresses on the card. The first of a kind is what the instance is known by."""
    if interface.kind != "public" and any(address.kind != "private" for address in addresses):
        raise Conflict("The instance has no public network card.")
    for address in addresses:
        address.interface_id = interface.id
        primary = get_entitlement_of(address).primary
        if primary and getattr(instance, primary) is None:
            setattr(instance, primary, address.ip)
    session.flush()
    session.expire(interface, ["addresses", "prefixes"])
    for address in addresses:
        session.expire(address, ["interface"])


def allocate_missing(instance, plan, reason, field=None):
    """Gives what the instance has fewer of than the plan promises; what it has more of it keeps. `reason` has a place
    for the word of what ran out. Says whether anything was given."""
    given = False
    for promise in ADDRESS_ENTITLEMENTS:
        if not promise.entitled(plan) or not (promise.kind == "private" or has_public_interface(instance)):
            continue
        ensure_interface(instance, plan)
        missing = promise.entitled(plan) - len(promise.held(instance))
        if missing > 0:
            allocate(instance, promise, missing, reason=reason.format(promise.word), field=field)
            given = True
    return given


def find_interface(instance):
    """The card that all of this is on, or None."""
    return next((card for card in instance.interfaces if card.kind in ADDRESS_INTERFACE_KINDS), None)


def has_public_interface(instance):
    """Whether it has a public card, or gets one if it has none."""
    card = find_interface(instance)
    return card.kind == "public" if card else instance.group.public_networking_enabled


def ensure_interface(instance, plan):
    """A machine that has no card gets one, at its next start if it is there already."""
    if find_interface(instance) is None:
        kind = "public" if has_public_interface(instance) else "private"
        mac = generate_unique(Interface.mac, random_mac)
        instance.interfaces.append(Interface(mac=mac, port_speed=plan.port_speed, kind=kind))
        session.flush()
