"""Reports about states that nobody's change causes. Jobs look for them; each is recorded once."""

from datetime import datetime, timedelta
from decimal import Decimal

from sqlalchemy import BigInteger, Select, cast, exists, func, literal, select

from panel.core import clock, context, formatting
from panel.core.db import session
from panel.core.messages import message
from panel.models import Account, Certificate, CreditLedgerEntry, InboxCause, Instance, Plan, UsageMonth
from panel.services import backup_coverage, settings, usage
from panel.services.credits import GRANTED_KINDS
from panel.services.inbox.recording import Report, record
from panel.services.instances.traffic import BYTES_PER_GB, select_used_bytes

BATCH_SIZE = 500
TRAFFIC_LEVELS = (100, 80)
"""Percent of the allowance at which a message is recorded, the highest first."""
CERTIFICATE_LEVELS = (0, 3, 14)
"""Days before the end of a certificate at which a message is recorded, the latest first. Ordered certificates are
renewed earlier, so these have failed."""
LOW_BALANCE_DAYS = 3
"""Credit that lasts for fewer days is low."""
OVERAGE_CONSEQUENCES = {
    "none": message("It keeps running."),
    "network": message("Its public network is disconnected until next month."),
    "instance": message("It is suspended until next month."),
}


def report_traffic() -> int:
    """Record a message for each instance that reached a level this month. Return the number of one batch."""
    month = usage.make_month_key(clock.now())
    used = select_used_bytes()
    allowed = cast(Instance.bandwidth, BigInteger) * BYTES_PER_GB
    count = 0
    for number, level in enumerate(TRAFFIC_LEVELS):
        is_reported = InboxCause.key.in_(
            [literal("traffic:") + Instance.id + f":{month}:{higher}" for higher in TRAFFIC_LEVELS[: number + 1]]
        )
        columns = Instance.id, Instance.account_id, Instance.display_name, Plan.overage
        query = select(*columns).join(Plan, Plan.id == Instance.plan_id).where(Instance.bandwidth > 0)
        query = query.where(used * 100 >= allowed * level, ~exists().where(is_reported)).limit(BATCH_SIZE)
        count += record([build_traffic_report(*row, level, month) for row in session.execute(query)])
    return count


def build_traffic_report(instance_id: str, account_id: str, name: str, overage: str, level: int, month: str) -> Report:
    if level < 100:
        text = message("{name} has used {level} % of this month's traffic.", name=name, level=level)
    else:
        consequence = OVERAGE_CONSEQUENCES[overage]
        text = message("{name} has used up this month's traffic. {consequence}", name=name, consequence=consequence)
    return Report(
        kind="traffic",
        key=f"traffic:{instance_id}:{month}:{level}",
        account_id=account_id,
        text=text,
        severity="warning" if level < 100 else "error",
        path=f"/instances/{instance_id}",
        resource_type="instance",
        resource_id=instance_id,
    )


def report_certificates() -> None:
    """Record a message for each certificate that reached a level."""
    now = clock.now()
    latest = now + timedelta(days=max(CERTIFICATE_LEVELS))
    columns = Certificate.id, Certificate.account_id, Certificate.name, Certificate.not_after
    # Old ones were reported when they expired.
    query = select(*columns).where(Certificate.not_after < latest, Certificate.not_after > now - timedelta(days=30))
    for rows in session.execute(query.order_by(Certificate.id)).partitions(BATCH_SIZE):
        record(
            build_certificate_report(row.id, row.account_id, row.name, row.not_after, now)
            for row in rows
            if row.not_after
        )


def build_certificate_report(
    certificate_id: str, account_id: str, name: str, not_after: datetime, now: datetime
) -> Report:
    level = next(days for days in CERTIFICATE_LEVELS if not_after <= now + timedelta(days=days))
    if level:
        text = message("The certificate {name} expires on {date}.", name=name, date=f"{not_after:%Y-%m-%d}")
    else:
        text = message("The certificate {name} has expired.", name=name)
    return Report(
        kind="certificate",
        key=f"certificate:{certificate_id}:{not_after:%Y-%m-%dT%H:%M:%S}:{level}",
        account_id=account_id,
        text=text,
        severity="warning" if level else "error",
        path=f"/certificates/{certificate_id}",
        resource_type="certificate",
        resource_id=certificate_id,
    )


def report_balances() -> None:
    """Record a message for each account whose credit is low or used up, once after each time that credit was added.
    Accounts that never had credit are billed otherwise."""
    if not settings.get().billing_enabled:
        return
    for rows in session.execute(select_charged_accounts(clock.now())).partitions(BATCH_SIZE):
        record(filter(None, (build_balance_report(*row) for row in rows)))


def select_charged_accounts(now: datetime) -> Select[str, Decimal, str, Decimal, int]:
    """Select accounts with credit that were charged this month: id, balance, the latest entry that added credit, and
    the charges of this month."""
    is_own = CreditLedgerEntry.account_id == Account.id
    granted = select(func.max(CreditLedgerEntry.id)).where(is_own, CreditLedgerEntry.kind.in_(GRANTED_KINDS))
    charges = (
        select(UsageMonth.account_id, func.sum(UsageMonth.charge).label("charge"))
        .where(UsageMonth.month == usage.make_month_key(now))
        .group_by(UsageMonth.account_id)
        .subquery()
    )
    columns = Account.id, Account.balance, granted.scalar_subquery().label("granted_id"), charges.c.charge
    query = select(*columns).join(charges, charges.c.account_id == Account.id)
    days = (now - now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)) / timedelta(days=1)
    return query.where(~Account.self_provisioning).add_columns(literal(days).label("days")).order_by(Account.id)


def build_balance_report(
    account_id: str, balance: Decimal, granted_id: str | None, charge: Decimal, days: float
) -> Report | None:
    """Return the report, or None while the credit lasts."""
    per_day = charge / Decimal(max(days, 1))
    if granted_id is None or not charge or balance >= per_day * LOW_BALANCE_DAYS:
        return None
    amount = formatting.format_money(balance, context.current().config.currency)
    if balance > 0:
        text = message("Your credit is low: {amount} left. Add credit soon.", amount=amount)
    else:
        text = message("Your credit is used up: the balance is {amount}. Add credit.", amount=amount)
    return Report(
        kind="balance",
        key=f"balance:{account_id}:{'low' if balance > 0 else 'empty'}:{granted_id}",
        account_id=account_id,
        text=text,
        severity="warning" if balance > 0 else "error",
        path="/billing",
    )


def report_missing_backups() -> None:
    """Record a message for each running instance with a backup policy that has no recent backup, once after each
    backup."""
    query = backup_coverage.select_gap(select(Instance.id, Instance.account_id, Instance.display_name), "overdue")
    for rows in session.execute(query.order_by(Instance.id)).partitions(BATCH_SIZE):
        newest = backup_coverage.map_newest_backups(row.id for row in rows)
        record(build_backup_report(*row, newest.get(row.id)) for row in rows)


def build_backup_report(instance_id: str, account_id: str, name: str, newest: datetime | None) -> Report:
    if newest:
        text = message(
            "{name} has no recent backup. The latest one is of {date}.", name=name, date=f"{newest:%Y-%m-%d}"
        )
    else:
        text = message("{name} has a backup policy but no backup.", name=name)
    return Report(
        kind="backup",
        key=f"no_backup:{instance_id}:{newest.isoformat() if newest else 'never'}",
        account_id=account_id,
        text=text,
        severity="error",
        path=f"/instances/{instance_id}/backups",
        resource_type="instance",
        resource_id=instance_id,
    )
