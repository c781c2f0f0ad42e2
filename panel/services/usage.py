"""What resources cost, hour by hour (API reference: usage).

* Every hour (UTC) in which a resource was there counts, whatever it did: its disk and addresses were held for it. The
  hour in which it was made counts in full. It ends when its destroying is asked for.
* A month of 730 hours costs the plan's price. The n-th hour of a calendar month costs what the price of n hours,
  rounded to a millionth, is more than that of n-1. Hours beyond the 730th are free: no month costs more than the price.
* After a change of price the hour under way still costs the old one.
* Whether an hour costs anything is decided when it is recorded: not while billing is off or the account is unbilled,
  and never for what an outside billing system charges.

Counting may run twice at once, late, or after days: each rental remembers up to where it was counted.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from itertools import takewhile

from sqlalchemy import delete, exists, func, insert, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Forbidden
from panel.models import Account, CreditLedgerEntry, MeteringRecord, UsageHour, UsageMonth
from panel.services import credits, settings

HOURS_PER_MONTH = 730
HOUR = timedelta(hours=1)
MICRO, CENT = Decimal("0.000001"), Decimal("0.01")
RECORDS_PER_BATCH, HOURS_PER_BATCH = 200, 100
"""How many rentals are counted in one transaction, and how many hours of each."""
USAGE_HOUR_RETENTION = timedelta(days=400)
"""How long single hours are kept. Months stay."""


def start_metering(resource_type, resource, *, name, plan, price, billing_mode):
    """A resource is there from now on."""
    now = clock.now()
    return open_record(
        resource_type, resource, name, plan, price, billing_mode, now, truncate_to_hour(now), truncate_to_hour(now)
    )


def change_price(resource, *, plan, price):
    """From the next hour on the resource costs something else."""
    ended = stop_metering(resource)
    counted_from = max(ended.counted_until, next_hour(ended.ended_at))
    what = ended.resource_type, resource, ended.resource_name, plan, price, ended.billing_mode
    return open_record(*what, ended.ended_at, ended.first_hour, counted_from)


def transfer(resource):
    """From the next hour on the resource is its new owner's to pay."""
    ended = stop_metering(resource)
    if ended is None:
        return None
    begins = max(ended.counted_until, next_hour(ended.ended_at))
    what = ended.resource_type, resource, ended.resource_name, ended.plan, ended.price, ended.billing_mode
    return open_record(*what, ended.ended_at, begins, begins)


def open_record(resource_type, resource, name, plan, price, billing_mode, started_at, first_hour, counted_until):
    rental = MeteringRecord(
        account_id=resource.account_id,
        resource_type=resource_type,
        resource_id=resource.id,
        resource_name=name,
        plan=plan,
        price=Decimal(str(price)),
        billing_mode=billing_mode,
        first_hour=first_hour,
        started_at=started_at,
        counted_until=counted_until,
    )
    session.add(rental)
    session.flush()
    return rental


def stop_metering(resource):
    """The resource costs nothing any more. Ended twice, the first time counts."""
    rental = lock_latest(resource.id)
    if rental and rental.ended_at is None:
        rental.ended_at = clock.now()
        session.flush()
    return rental


def resume_metering(resource_id):
    """It was not destroyed after all: it goes on as if nobody had asked for that."""
    rental = lock_latest(resource_id)
    if rental and rental.ended_at:
        rental.ended_at, rental.settled = None, False


def lock_latest(resource_id):
    """The rental that holds now or held last, locked until the transaction ends."""
    newest = (
        select(MeteringRecord)
        .where(MeteringRecord.resource_id == resource_id)
        .order_by(MeteringRecord.id.desc())
        .limit(1)
    )
    return session.scalar(newest.with_for_update().execution_options(populate_existing=True))


def ensure_billing_enabled(access):
    """Raises while billing is off for the whole platform, but for unbilled accounts: what costs something is shut."""
    if not is_billing_enabled(access):
        raise Forbidden("Billing is switched off here, so this cannot be used.", reason="billing_disabled")


def is_billing_enabled(access):
    """Whether the account can use what costs something."""
    return settings.get().billing_enabled or access.unbilled


def truncate_to_hour(moment):
    return moment.replace(minute=0, second=0, microsecond=0)


def next_hour(moment):
    """The first hour that begins at the moment or after it."""
    return truncate_to_hour(moment) if moment == truncate_to_hour(moment) else truncate_to_hour(moment) + HOUR


def make_month_key(moment):
    return f"{moment:%Y-%m}"


def month_label(month):
    """`November 2026`."""
    return f"{datetime.strptime(month, '%Y-%m'):%B %Y}"


def meter_hours():
    """Records hours that are over, of some rentals. Returns of how many: 0 when everything is recorded."""
    over = truncate_to_hour(clock.now())
    due = (
        select(MeteringRecord)
        .where(~MeteringRecord.settled, MeteringRecord.counted_until < over)
        .order_by(MeteringRecord.counted_until, MeteringRecord.id)
    )
    locked = due.limit(RECORDS_PER_BATCH).with_for_update().execution_options(populate_existing=True)
    rentals = session.scalars(locked).all()
    if not rentals:
        return 0
    modes = get_billing_modes({rental.account_id for rental in rentals})
    recorded = []
    for rental in rentals:
        hours = list(iter_unrecorded_hours(rental, over))
        recorded += [(rental, make_hour_row(rental, hour, modes.get(rental.account_id))) for hour in hours]
        rental.counted_until += HOUR * len(hours)
        rental.settled = rental.ended_at is not None and rental.counted_until >= rental.ended_at
    if recorded:
        session.execute(insert(UsageHour), [row for _, row in recorded])
        add_to_months(recorded)
    session.flush()
    return len(rentals)


def iter_unrecorded_hours(rental, over):
    """The hours of the rental that are not recorded yet and over, the oldest first; not too many at once."""
    until = over if rental.ended_at is None else min(over, next_hour(rental.ended_at))
    following = (rental.counted_until + HOUR * number for number in range(HOURS_PER_BATCH))
    return takewhile(lambda hour: hour < until, following)


def get_billing_modes(account_ids):
    """For each account how its resources are billed now, if not by somebody else."""
    charged = "cloud_service" if settings.get().billing_enabled else None
    found = session.execute(select(Account.id, Account.self_provisioning).where(Account.id.in_(account_ids)))
    return {account_id: "self_provisioned" if unbilled else charged for account_id, unbilled in found}


def make_hour_row(rental, hour, mode):
    """The row of one hour. `mode` is how the account is billed, None when nobody is charged at the moment."""
    mode = "external" if rental.billing_mode == "external" else mode
    month = hour.replace(day=1, hour=0)
    number = (hour - max(month, rental.first_hour)) // HOUR
    return {
        "resource_id": rental.resource_id,
        "hour": hour,
        "account_id": rental.account_id,
        "billing_mode": mode or "cloud_service",
        "price": rental.price,
        "charge": calculate_charge(rental.price, number) if mode == "cloud_service" else Decimal(0),
    }


def calculate_charge(price, number):
    """What the hour with this number in its month costs, counted from 0."""
    return calculate_price(price, number + 1) - calculate_price(price, number)


def calculate_price(price, hours):
    return (price * min(hours, HOURS_PER_MONTH) / HOURS_PER_MONTH).quantize(MICRO)


def add_to_months(recorded):
    """Adds recorded hours, each with its rental, to their months."""
    ids = {rental.resource_id for rental, _ in recorded}
    months = {make_month_key(hour["hour"]) for _, hour in recorded}
    there = select(UsageMonth).where(UsageMonth.resource_id.in_(ids), UsageMonth.month.in_(months))
    there = there.order_by(UsageMonth.resource_id, UsageMonth.month).with_for_update()
    rows = session.scalars(there.execution_options(populate_existing=True))
    found = {(row.resource_id, row.month, row.account_id): row for row in rows}
    for rental, hour in recorded:
        key = rental.resource_id, make_month_key(hour["hour"]), rental.account_id
        row = found.get(key) or found.setdefault(key, create_month_row(rental, hour))
        row.hours += 1
        row.charge += hour["charge"]
        row.unbooked = row.unbooked or hour["charge"] > 0
        if row.last_hour <= hour["hour"]:
            row.plan, row.price, row.billing_mode = rental.plan, hour["price"], hour["billing_mode"]
            row.last_hour = hour["hour"]


def create_month_row(rental, hour):
    """The row of a month, before its first hour is added."""
    row = UsageMonth(
        resource_id=rental.resource_id,
        month=make_month_key(hour["hour"]),
        account_id=rental.account_id,
        resource_type=rental.resource_type,
        resource_name=rental.resource_name,
        hours=0,
        charge=Decimal(0),
        unbooked=False,
        last_hour=hour["hour"],
    )
    session.add(row)
    return row


def post_charges():
    """Writes charges into the ledgers of some accounts, once a day for each account and month: the month's charges in
    whole cents, less what the ledger has of them. Returns for how many: 0 when every ledger is up to date."""
    today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    same = CreditLedgerEntry.account_id == UsageMonth.account_id, CreditLedgerEntry.month == UsageMonth.month
    booked_today = exists().where(*same, CreditLedgerEntry.created_at >= today)
    waiting = select(UsageMonth.account_id, UsageMonth.month).where(UsageMonth.unbooked, ~booked_today)
    found = session.execute(
        waiting.distinct().order_by(UsageMonth.account_id, UsageMonth.month).limit(RECORDS_PER_BATCH)
    ).all()
    for account_id, month in found:
        post_month(account_id, month)
    return len(found)


def post_month(account_id, month):
    account = credits.lock_account(account_id)
    used = select(UsageMonth).where(UsageMonth.account_id == account_id, UsageMonth.month == month)
    used = used.order_by(UsageMonth.resource_id).with_for_update().execution_options(populate_existing=True)
    rows = session.scalars(used).all()
    owed = sum((row.charge for row in rows), Decimal(0)).quantize(CENT)
    rest = owed - credits.charged_total(account_id, month)
    if account and rest:
        credits.post_entry(
            account, "usage", -rest, actor="system", description=f"Usage of {month_label(month)}", month=month
        )
    for row in rows:
        row.unbooked = False
    session.flush()


def select_months(account=None):
    """What the account, or everybody, used in each month, the latest first: `month`, `resources`, `hours`, `charge`."""
    sums = func.sum(UsageMonth.hours).label("hours"), func.sum(UsageMonth.charge).label("charge")
    query = select(UsageMonth.month, func.count().label("resources"), *sums)
    query = query.where(account.visible_rows(UsageMonth)) if account else query
    return query.group_by(UsageMonth.month).order_by(UsageMonth.month.desc())


def month_rows(month, account=None):
    """Each resource's use of the month, the newest resource first."""
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


def iter_export(month, account=None):
    """The month as lines of a table, with charges to the millionth."""
    for row in session.scalars(month_rows(month, account)):
        yield [getattr(row, name) for name in EXPORT_COLUMNS]


def get_totals(month, account=None):
    """Hours, resources and charge of a month, of the account or of everybody."""
    found = session.execute(select_months(account).where(UsageMonth.month == month)).one_or_none()
    hours, resources, charge = (found.hours, found.resources, found.charge) if found else (0, 0, Decimal(0))
    return {"month": month, "hours": int(hours), "resources": resources, "charge": charge}


def select_by_account(month):
    """Every account's use of the month."""
    sums = func.sum(UsageMonth.hours).label("hours"), func.sum(UsageMonth.charge).label("charge")
    used = select(UsageMonth.account_id, func.count().label("resources"), *sums).where(UsageMonth.month == month)
    used = used.group_by(UsageMonth.account_id).subquery().c
    email = select(Account.email).where(Account.id == used.account_id).scalar_subquery().label("email")
    return select(used.account_id, email, used.resources, used.hours, used.charge).order_by(used.account_id)


def purge_expired():
    """Removes single hours that have had their day."""
    session.execute(delete(UsageHour).where(UsageHour.hour < clock.now() - USAGE_HOUR_RETENTION))
