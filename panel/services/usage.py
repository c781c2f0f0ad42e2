"""Metering: what resources cost, hour by hour (API reference: usage).

* Every hour (UTC) in which a resource exists counts, whatever its state, because its disk and addresses are reserved
  for it. The hour of its creation counts in full. Metering ends when its deletion is requested, and for a micro
  VM also when its create fails, because then nothing is reserved for it.
* A month of 730 hours costs the plan's price. The n-th hour of a calendar month costs the price of n hours minus the
  price of n-1 hours, each rounded to a millionth. Hours beyond the 730th are free: no month costs more than the price.
* After a change of price the current hour still costs the old price.
* Whether an hour is charged is decided when it is recorded. Nothing is charged while billing is off, for unbilled
  accounts, and for what an external billing system charges.

Metering may run concurrently, late, or after days: each metering record stores up to where it was counted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import takewhile
from typing import Any, TypeAlias

from sqlalchemy import Select, delete, exists, func, insert, select

from panel.core import clock
from panel.core.db import session, with_lock
from panel.core.errors import Forbidden
from panel.core.messages import Message, message
from panel.models import (
    Account,
    CreditLedgerEntry,
    Instance,
    ManagedBackupUsage,
    MeteringRecord,
    Microvm,
    ResourcePack,
    UsageHour,
    UsageMonth,
    Volume,
)
from panel.services import credits, settings
from panel.services.access import Access

MeteredResource: TypeAlias = Instance | ManagedBackupUsage | Microvm | ResourcePack | Volume

HOURS_PER_MONTH = 730
ONE_HOUR = timedelta(hours=1)
CHARGE_QUANTUM, CENT_QUANTUM = Decimal("0.000001"), Decimal("0.01")
RECORDS_PER_BATCH, HOURS_PER_BATCH = 200, 100
"""Maximum number of metering records in one transaction, and of hours of each."""
USAGE_HOUR_RETENTION = timedelta(days=400)
"""How long single hours are stored. Months are never deleted."""


def start_metering(
    resource_type: str, resource: MeteredResource, *, name: str, plan: str, price: Decimal | int, billing_mode: str
) -> MeteringRecord:
    """Start to meter a resource, from the current hour on."""
    now = clock.now()
    return open_record(
        resource_type, resource, name, plan, price, billing_mode, now, truncate_to_hour(now), truncate_to_hour(now)
    )


def change_price(resource: MeteredResource, *, plan: str, price: Decimal | int) -> MeteringRecord | None:
    """Charge another price for the resource from the next hour on.

    Return the new record, or None if the resource is not metered (any more).
    """
    ended = end_open_record(resource.id)
    if ended is None:
        return None
    last, ended_at = ended
    counted_from = max(last.metered_until, add_hour(ended_at))
    details = last.resource_type, resource, last.resource_name, plan, price, last.billing_mode
    return open_record(*details, ended_at, last.first_hour, counted_from)


def transfer(resource: MeteredResource) -> MeteringRecord | None:
    """Charge the resource's new owner from the next hour on.

    Return the new record, or None if the resource is not metered (any more).
    """
    ended = end_open_record(resource.id)
    if ended is None:
        return None
    last, ended_at = ended
    first_hour = max(last.metered_until, add_hour(ended_at))
    details = last.resource_type, resource, last.resource_name, last.plan, last.price, last.billing_mode
    return open_record(*details, ended_at, first_hour, first_hour)


def open_record(
    resource_type: str,
    resource: MeteredResource,
    name: str,
    plan: str,
    price: Decimal | int,
    billing_mode: str,
    started_at: datetime,
    first_hour: datetime,
    metered_until: datetime,
) -> MeteringRecord:
    record = MeteringRecord(
        account_id=resource.account_id,
        resource_type=resource_type,
        resource_id=resource.id,
        resource_name=name,
        plan=plan,
        price=Decimal(str(price)),
        billing_mode=billing_mode,
        first_hour=first_hour,
        started_at=started_at,
        metered_until=metered_until,
    )
    session.add(record)
    session.flush()
    return record


def stop_metering(resource: MeteredResource) -> None:
    """End the metering of the resource. A second call changes nothing."""
    end_open_record(resource.id)


def end_open_record(resource_id: str) -> tuple[MeteringRecord, datetime] | None:
    """End the resource's open record. Return it and when it ended, or None if there is none."""
    record = lock_latest(resource_id)
    if record is None or record.ended_at is not None:
        return None
    record.ended_at = ended_at = clock.now()
    session.flush()
    return record, ended_at


def resume_metering(resource_id: str) -> None:
    """Continue the metering after a deletion that was reverted, as if it had not been requested."""
    record = lock_latest(resource_id)
    if record and record.ended_at:
        record.ended_at, record.closed = None, False


def lock_latest(resource_id: str) -> MeteringRecord | None:
    """Return the resource's latest metering record, locked until the transaction ends."""
    query = (
        select(MeteringRecord)
        .where(MeteringRecord.resource_id == resource_id)
        .order_by(MeteringRecord.id.desc())
        .limit(1)
    )
    return session.scalar(with_lock(query))


def ensure_billing_enabled(access: Access) -> None:
    """Raise Forbidden while billing is off for the platform, except for unbilled accounts."""
    if reason := billing_error(access):
        raise Forbidden(reason, reason="billing_disabled")


def billing_error(access: Access) -> Message | None:
    """Return why the account cannot use paid resources, or None."""
    if is_billing_enabled(access):
        return None
    return message("Billing is disabled, so this cannot be used. Contact support.")


def is_billing_enabled(access: Access) -> bool:
    """Return whether the account can use paid resources."""
    return settings.get().billing_enabled or access.unbilled


def truncate_to_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def add_hour(moment: datetime) -> datetime:
    """Return the first hour that begins at the moment or after it."""
    return truncate_to_hour(moment) if moment == truncate_to_hour(moment) else truncate_to_hour(moment) + ONE_HOUR


def make_month_key(moment: datetime) -> str:
    return f"{moment:%Y-%m}"


MONTH_NAMES = (
    message("January"),
    message("February"),
    message("March"),
    message("April"),
    message("May"),
    message("June"),
    message("July"),
    message("August"),
    message("September"),
    message("October"),
    message("November"),
    message("December"),
)


def month_label(month: str) -> str:
    """Return the month as a message: `November 2026`."""
    year, number = month.split("-")
    return message("{month} {year}", month=MONTH_NAMES[int(number) - 1], year=year)


def meter_hours() -> int:
    """Record the finished hours of some metering records.

    Return the number of records; 0 when everything is recorded.
    """
    end = truncate_to_hour(clock.now())
    due = (
        select(MeteringRecord)
        .where(~MeteringRecord.closed, MeteringRecord.metered_until < end)
        .order_by(MeteringRecord.metered_until, MeteringRecord.id)
    )
    locked = with_lock(due.limit(RECORDS_PER_BATCH))
    records = session.scalars(locked).all()
    if not records:
        return 0
    modes = get_billing_modes({record.account_id for record in records})
    hour_rows = []
    for record in records:
        hours = list(iter_unrecorded_hours(record, end))
        hour_rows += [(record, make_hour_row(record, hour, modes.get(record.account_id))) for hour in hours]
        record.metered_until += ONE_HOUR * len(hours)
        record.closed = record.ended_at is not None and record.metered_until >= record.ended_at
    if hour_rows:
        session.execute(insert(UsageHour), [row for _, row in hour_rows])
        add_to_months(hour_rows)
    session.flush()
    return len(records)


def iter_unrecorded_hours(record: MeteringRecord, end: datetime) -> Iterator[datetime]:
    """Yield the record's finished hours that are not recorded yet, oldest first, at most `HOURS_PER_BATCH`."""
    until = end if record.ended_at is None else min(end, add_hour(record.ended_at))
    following = (record.metered_until + ONE_HOUR * number for number in range(HOURS_PER_BATCH))
    return takewhile(lambda hour: hour < until, following)


def get_billing_modes(account_ids: Collection[str]) -> dict[str, str | None]:
    """Return the current billing mode of each account, by id; None if nothing is charged."""
    charged_mode = "cloud_service" if settings.get().billing_enabled else None
    rows = session.execute(select(Account.id, Account.self_provisioning).where(Account.id.in_(account_ids)))
    return {account_id: "self_provisioned" if unbilled else charged_mode for account_id, unbilled in rows}


def make_hour_row(record: MeteringRecord, hour: datetime, mode: str | None) -> dict[str, Any]:
    """Return the row of one hour. `mode` is the account's billing mode; None if nothing is charged at the moment."""
    mode = "external" if record.billing_mode == "external" else mode
    month = hour.replace(day=1, hour=0)
    number = (hour - max(month, record.first_hour)) // ONE_HOUR
    return {
        "resource_id": record.resource_id,
        "hour": hour,
        "account_id": record.account_id,
        "billing_mode": mode or "cloud_service",
        "price": record.price,
        "charge": calculate_charge(record.price, number) if mode == "cloud_service" else Decimal(0),
    }


def calculate_charge(price: Decimal, number: int) -> Decimal:
    """Return what the hour with this number in its month costs, counted from 0."""
    return calculate_price(price, number + 1) - calculate_price(price, number)


def calculate_price(price: Decimal, hours: int) -> Decimal:
    return (price * min(hours, HOURS_PER_MONTH) / HOURS_PER_MONTH).quantize(CHARGE_QUANTUM)


def add_to_months(hour_rows: Sequence[tuple[MeteringRecord, dict[str, Any]]]) -> None:
    """Add hours, as pairs of metering record and row, to the rows of their months."""
    ids = {record.resource_id for record, _ in hour_rows}
    months = {make_month_key(hour["hour"]) for _, hour in hour_rows}
    query = select(UsageMonth).where(UsageMonth.resource_id.in_(ids), UsageMonth.month.in_(months))
    rows = session.scalars(with_lock(query.order_by(UsageMonth.resource_id, UsageMonth.month)))
    existing = {(row.resource_id, row.month, row.account_id): row for row in rows}
    for record, hour in hour_rows:
        key = record.resource_id, make_month_key(hour["hour"]), record.account_id
        row = existing.get(key) or existing.setdefault(key, create_month_row(record, hour))
        row.hours += 1
        row.charge += hour["charge"]
        row.needs_posting = row.needs_posting or hour["charge"] > 0
        if row.last_hour <= hour["hour"]:
            row.plan, row.price, row.billing_mode = record.plan, hour["price"], hour["billing_mode"]
            row.last_hour = hour["hour"]


def create_month_row(record: MeteringRecord, hour: Mapping[str, Any]) -> UsageMonth:
    """Create the row of a month, before its first hour is added."""
    row = UsageMonth(
        resource_id=record.resource_id,
        month=make_month_key(hour["hour"]),
        account_id=record.account_id,
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        hours=0,
        charge=Decimal(0),
        needs_posting=False,
        last_hour=hour["hour"],
    )
    session.add(row)
    return row


def post_charges() -> int:
    """Write charges into the ledgers of some accounts, once a day for each account and month.

    An entry has the month's charges in whole cents, less what the ledger already has of them. Return the number of
    accounts and months; 0 when every ledger is up to date.
    """
    today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    same_month = CreditLedgerEntry.account_id == UsageMonth.account_id, CreditLedgerEntry.month == UsageMonth.month
    booked_today = exists().where(*same_month, CreditLedgerEntry.created_at >= today)
    query = select(UsageMonth.account_id, UsageMonth.month).where(UsageMonth.needs_posting, ~booked_today)
    due = session.execute(
        query.distinct().order_by(UsageMonth.account_id, UsageMonth.month).limit(RECORDS_PER_BATCH)
    ).all()
    for account_id, month in due:
        post_month(account_id, month)
    return len(due)


def post_month(account_id: str, month: str) -> None:
    account = credits.lock_account(account_id)
    query = select(UsageMonth).where(UsageMonth.account_id == account_id, UsageMonth.month == month)
    query = with_lock(query.order_by(UsageMonth.resource_id))
    rows = session.scalars(query).all()
    total = sum((row.charge for row in rows), Decimal(0)).quantize(CENT_QUANTUM)
    difference = total - credits.get_charged_total(account_id, month)
    if account and difference:
        description = message("Usage of {month}", month=month_label(month))
        credits.post_entry(account, "usage", -difference, actor="system", description=description, month=month)
    for row in rows:
        row.needs_posting = False
    session.flush()


def select_months(account: Access | Account | None = None) -> Select[str, int, int, Decimal]:
    """Select the usage of each month, of the account or of all, latest first.

    Columns: `month`, `resources`, `hours`, `charge`.
    """
    sums = func.sum(UsageMonth.hours).label("hours"), func.sum(UsageMonth.charge).label("charge")
    query = select(UsageMonth.month, func.count().label("resources"), *sums)
    query = query.where(account.visible_rows(UsageMonth)) if account else query
    return query.group_by(UsageMonth.month).order_by(UsageMonth.month.desc())


def select_month_rows(month: str, account: Access | Account | None = None) -> Select[UsageMonth]:
    """Select each resource's usage of the month, newest resource first."""
    query = (
        select(UsageMonth)
        .where(UsageMonth.month == month)
        .order_by(UsageMonth.resource_id.desc(), UsageMonth.account_id)
    )
    return query.where(account.visible_rows(UsageMonth)) if account else query


EXPORT_COLUMNS = (
    "month",
    "resource_name",
    "resource_id",
    "plan",
    "price",
    "billing_mode",
    "hours",
    "charge",
    "last_hour",
)


def iter_export(month: str, account: Access | Account | None = None) -> Iterator[list[Any]]:
    """Yield the month's usage as rows of `EXPORT_COLUMNS`, with charges to the millionth."""
    for row in session.scalars(select_month_rows(month, account)):
        yield [getattr(row, name) for name in EXPORT_COLUMNS]


def get_totals(month: str, account: Access | Account | None = None) -> dict[str, Any]:
    """Return hours, resources and charge of a month, of the account or of all."""
    row = session.execute(select_months(account).where(UsageMonth.month == month)).one_or_none()
    hours, resources, charge = (row.hours, row.resources, row.charge) if row else (0, 0, Decimal(0))
    return {"month": month, "hours": int(hours), "resources": resources, "charge": charge}


def estimate_charge(charge: Decimal, account: Access | Account) -> Decimal:
    """Return what the current month will have cost at its end, if everything that is metered now exists until then.
    `charge` is what it has cost so far."""
    now = clock.now()
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (begin + timedelta(days=32)).replace(day=1)
    elapsed = (now - begin) // ONE_HOUR
    remaining = min((end - begin) // ONE_HOUR, HOURS_PER_MONTH) - elapsed
    prices = select(func.sum(MeteringRecord.price)).where(
        account.visible_rows(MeteringRecord),
        MeteringRecord.ended_at.is_(None),
        ~MeteringRecord.closed,
        MeteringRecord.billing_mode != "external",
    )
    return charge + calculate_price(session.scalars(prices).one() or Decimal(0), max(0, remaining))


def select_by_account(month: str) -> Select:
    """Select every account's usage of the month."""
    sums = func.sum(UsageMonth.hours).label("hours"), func.sum(UsageMonth.charge).label("charge")
    used = select(UsageMonth.account_id, func.count().label("resources"), *sums).where(UsageMonth.month == month)
    columns = used.group_by(UsageMonth.account_id).subquery().c
    email = select(Account.email).where(Account.id == columns.account_id).scalar_subquery().label("email")
    query = select(columns.account_id, email, columns.resources, columns.hours, columns.charge)
    return query.order_by(columns.account_id)


def purge_expired() -> None:
    """Delete the rows of single hours after their retention."""
    session.execute(delete(UsageHour).where(UsageHour.hour < clock.now() - USAGE_HOUR_RETENTION))
