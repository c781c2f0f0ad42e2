"""Creating several instances in one request: all or none."""

from panel.core.errors import Invalid
from panel.core.messages import message, plural_message
from panel.models import Account
from panel.services import catalog, placement
from panel.services.access import Access

MAX_INSTANCES_PER_REQUEST = 10


def ensure_room(account: Access | Account, *, location_id: str, plan_id: str, quantity: int) -> None:
    """Raise unless so many instances of the plan fit into the location. What is created then is checked again, under
    a lock."""
    group = catalog.get_location(location_id, account, "location_id")
    room = placement.count_machines(group, catalog.get_offered_plan(group, plan_id), quantity)
    if 0 < room < quantity:  # a plan that does not fit at all is refused with its own reason
        raise Invalid(message("Nothing was created."), quantity=describe_room(room))


def describe_room(room: int) -> str:
    return plural_message(
        "Only {count} instance of this plan fits here at the moment.",
        "Only {count} instances of this plan fit here at the moment.",
        count=room,
    )


def number_names(name: str, quantity: int) -> list[str]:
    """Return a name for each instance: `web-1`, `web-2` …"""
    return [name] if quantity == 1 else [f"{name[:250]}-{number}" for number in range(1, quantity + 1)]


def number_hostnames(hostname: str, quantity: int) -> list[str]:
    """Return a host name for each instance, numbered in its first label: `web-1.example.com` …"""
    label, dot, domain = hostname.partition(".")
    return [f"{numbered}{dot}{domain}" for numbered in number_names(label, quantity)]
