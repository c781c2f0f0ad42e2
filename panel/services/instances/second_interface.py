"""The second interface of an instance, for a private address of the location."""

from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import Instance, Interface
from panel.services import address_allocation, address_log, audit, subnets
from panel.services.ids import generate_mac
from panel.services.state_machine import TASK_RUNNING, make_problem

NOT_STOPPED_MESSAGE = message(
    "The instance is running. Shut it down first: cards are added and removed while it is off."
)
NO_FREE_ADDRESS_MESSAGE = message("The location has no free private IPv4 address left.")


def find_second_interface(instance: Instance) -> Interface | None:
    """Return the interface after the first one, or None."""
    return instance.interfaces[1] if len(instance.interfaces) > 1 else None


def enable(instance: Instance) -> Interface:
    """Add a second interface with the next free private IPv4 address. Return it, also when it existed already."""
    ensure_changeable(instance)
    if existing := find_second_interface(instance):
        return existing
    if instance.primary_interface is None:
        raise Conflict(message("The instance has no network card."))
    addresses = subnets.allocate(instance.group, 4, 1, "private")
    if not addresses:
        raise Invalid(NO_FREE_ADDRESS_MESSAGE, reason="private_ipv4_not_available")
    interface = Interface(
        mac=generate_mac(),
        kind="private",
        position=1,
        port_speed=instance.primary_interface.port_speed,
    )
    instance.interfaces.append(interface)
    session.flush()
    address_allocation.assign(instance, interface, addresses)
    audit.track(instance, fields=("interfaces", "addresses"))
    return interface


def disable(instance: Instance) -> None:
    """Remove the second interface and release its addresses. Do nothing without one."""
    ensure_changeable(instance)
    interface = find_second_interface(instance)
    if interface is None:
        return
    if any(address.ip == instance.private_ipv4 for address in interface.addresses):
        remaining = [address for address in instance.interfaces[0].addresses if address.kind == "private"]
        instance.private_ipv4 = remaining[0].ip if remaining else None
    for address in interface.addresses:
        address.rdns = None
    address_log.record_released(instance, interface.addresses)
    instance.interfaces.remove(interface)
    session.flush()
    session.expire(instance, ["interfaces"])
    audit.track(instance, fields=("interfaces", "addresses"))


def ensure_changeable(instance: Instance) -> None:
    if instance.state == "migrating" or instance.rebuilding:
        raise make_problem(TASK_RUNNING)
    if instance.power == "on":
        raise Conflict(NOT_STOPPED_MESSAGE, reason="not_stopped")
