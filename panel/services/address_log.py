"""The log of addresses: which instance and customer had an address, and when."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import Select, delete, or_, select, update

from panel.core import clock
from panel.core.db import session
from panel.models import Address, AddressLogEntry, Instance

RETENTION = timedelta(days=365)
"""How long an entry stays after the release of its address."""


def listing(
    *,
    ip: str | None = None,
    instance_id: str | None = None,
    user_id: str | None = None,
    at: datetime | None = None,
) -> Select[AddressLogEntry]:
    """Select entries, newest first. `at` selects those whose address was assigned at this moment."""
    query = select(AddressLogEntry).order_by(AddressLogEntry.id.desc())
    values = {AddressLogEntry.ip: ip, AddressLogEntry.instance_id: instance_id, AddressLogEntry.account_id: user_id}
    query = query.where(*(column == value for column, value in values.items() if value))
    if at:
        released = AddressLogEntry.released_at
        query = query.where(AddressLogEntry.assigned_at <= at, or_(released.is_(None), released > at))
    return query


def record_assigned(instance: Instance, addresses: Iterable[Address]) -> None:
    facts = {"instance_id": instance.id, "instance_name": instance.display_name, "account_id": instance.account_id}
    session.add_all(AddressLogEntry(ip=address.ip, email=instance.account.email, **facts) for address in addresses)


def record_released(instance: Instance, addresses: Iterable[Address] | None = None) -> None:
    """Record that the instance has these addresses no more, by default none at all."""
    entries = update(AddressLogEntry).where(
        AddressLogEntry.instance_id == instance.id, AddressLogEntry.released_at.is_(None)
    )
    if addresses is not None:
        entries = entries.where(AddressLogEntry.ip.in_([address.ip for address in addresses]))
    session.execute(entries.values(released_at=clock.now()))


def purge_expired() -> None:
    session.execute(delete(AddressLogEntry).where(AddressLogEntry.released_at < clock.now() - RETENTION))
