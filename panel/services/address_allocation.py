"""The addresses that a plan includes (INS-71 to INS-73): public IPv4 and IPv6 addresses, prefixes, private IPv4
addresses.

All addresses of an instance are on one interface. A private address is a further one on it, from a subnet of the
location: no second network has to reach every hypervisor, and it needs no new interface. In a location without public
networking there are only private addresses, on an interface of the kind `private`.
"""

from collections.abc import Collection
from dataclasses import dataclass

from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import Address, Instance, Interface, Plan
from panel.services import address_log, subnets
from panel.services.ids import generate_mac


@dataclass(frozen=True)
class AddressEntitlement:
    """One kind of address. `field` is the plan's column with the number of such addresses."""

    field: str
    kind: str
    """The kind of the subnets."""
    family: int
    word: str
    """The name in reasons."""
    text: str
    """The name in messages."""
    primary: str | None = None
    """The instance's column with the first address of this kind."""

    def list_allocated(self, instance: Instance) -> list[Address]:
        """Return the addresses of this kind that the instance has."""
        rows = instance.prefixes if self.kind == "routed" else instance.addresses
        return [row for row in rows if (row.family, row.kind) == (self.family, self.kind)]

    def get_entitled_count(self, plan: Plan) -> int:
        return getattr(plan, self.field)


ADDRESS_ENTITLEMENTS = (
    AddressEntitlement("ipv4", "public", 4, "ipv4", message("IPv4 address"), "ipv4"),
    AddressEntitlement("ipv6", "public", 6, "ipv6", message("IPv6 address"), "ipv6"),
    AddressEntitlement("ipv6_prefixes", "routed", 6, "ipv6_subnet", message("IPv6 prefix")),
    AddressEntitlement("private_ipv4", "private", 4, "private_ipv4", message("private IPv4 address"), "private_ipv4"),
)


ADDRESS_INTERFACE_KINDS = ("public", "private")


def get_entitlement(kind: str, family: int | None) -> AddressEntitlement:
    """Return the entitlement of this kind. The family matters for `public` only."""
    return next(
        entitlement
        for entitlement in ADDRESS_ENTITLEMENTS
        if entitlement.kind == kind and (kind != "public" or entitlement.family == family)
    )


def get_entitlement_of(address: Address) -> AddressEntitlement:
    return get_entitlement(address.kind, address.family)


def get_usage(instance: Instance) -> list[tuple[AddressEntitlement, int, int]]:
    """Return for each entitlement how many addresses the instance has and how many its plan includes."""
    return [
        (entitlement, len(entitlement.list_allocated(instance)), entitlement.get_entitled_count(instance.plan))
        for entitlement in ADDRESS_ENTITLEMENTS
    ]


def allocate(
    instance: Instance, entitlement: AddressEntitlement, count: int, *, reason: str, error_field: str | None = None
) -> list[Address]:
    """Take free addresses and assign them to the instance. Raise with the reason when there are too few."""
    addresses = subnets.allocate(instance.group, entitlement.family, count, entitlement.kind)
    if len(addresses) < count:
        sentence = message("The location has no free {kind} left.", kind=entitlement.text)
        raise Invalid(sentence, reason=reason, **({error_field: sentence} if error_field else {}))
    interface = find_interface(instance)
    if interface is None:
        raise Conflict(message("The instance has no network card."))
    assign(instance, interface, addresses)
    return addresses


def assign(instance: Instance, interface: Interface, addresses: Collection[Address]) -> None:
    """Put the addresses on the interface. The first of a kind becomes the instance's primary one."""
    if interface.kind != "public" and any(address.kind != "private" for address in addresses):
        raise Conflict(message("The instance has no public network card."))
    for address in addresses:
        address.interface_id = interface.id
        primary = get_entitlement_of(address).primary
        if primary and getattr(instance, primary) is None:
            setattr(instance, primary, address.ip)
    address_log.record_assigned(instance, addresses)
    session.flush()
    session.expire(interface, ["addresses", "prefixes"])
    for address in addresses:
        session.expire(address, ["interface"])


def allocate_missing(instance: Instance, plan: Plan, reason: str, error_field: str | None = None) -> bool:
    """Assign the addresses that the plan includes and the instance does not have. Surplus ones stay. `reason` is a
    format with a place for the kind that ran out. Return whether anything was assigned."""
    is_changed = False
    for entitlement in ADDRESS_ENTITLEMENTS:
        if not entitlement.get_entitled_count(plan) or not (
            entitlement.kind == "private" or has_public_interface(instance)
        ):
            continue
        ensure_interface(instance, plan)
        missing = entitlement.get_entitled_count(plan) - len(entitlement.list_allocated(instance))
        if missing > 0:
            allocate(instance, entitlement, missing, reason=reason.format(entitlement.word), error_field=error_field)
            is_changed = True
    return is_changed


def find_interface(instance: Instance) -> Interface | None:
    """Return the interface for the addresses, or None."""
    return next((interface for interface in instance.interfaces if interface.kind in ADDRESS_INTERFACE_KINDS), None)


def has_public_interface(instance: Instance) -> bool:
    """Return whether the instance has a public interface, or will get one when it has none."""
    interface = find_interface(instance)
    return interface.kind == "public" if interface else instance.group.public_networking_enabled


def ensure_interface(instance: Instance, plan: Plan) -> None:
    """Add an interface to an instance that has none. A running machine gets it at its next start."""
    if find_interface(instance) is None:
        kind = "public" if has_public_interface(instance) else "private"
        mac = generate_mac()
        instance.interfaces.append(Interface(mac=mac, port_speed=plan.port_speed, kind=kind))
        session.flush()
