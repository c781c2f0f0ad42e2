"""Limits of an account (LIM-10 to LIM-15): how many of each kind it may have. 0 is unlimited."""

from typing import Any

from sqlalchemy import func, select

from panel.core.db import lock_row, session
from panel.core.errors import Invalid
from panel.core.messages import message, plural_message
from panel.models import Account, Certificate, MicrovmConnector
from panel.schemas.constants import ACCOUNT_LIMITS

COUNTED_COLUMNS: dict[str, Any] = {
    "max_certificates": Certificate.id,
    "max_serverless_apps": MicrovmConnector.microvm_id,
}
"""The column whose different values each limit counts. A limit without a column here is not counted."""

NOUNS = {
    "max_certificates": lambda count: plural_message("{count} certificate", "{count} certificates", count=count),
    "max_dns_zones": lambda count: plural_message("{count} DNS zone", "{count} DNS zones", count=count),
    "max_serverless_apps": lambda count: plural_message(
        "{count} micro VM with a public address", "{count} micro VMs with a public address", count=count
    ),
}
"""The number of what each enforced limit counts, as text."""


def describe_limits(account_id: str) -> dict[str, dict[str, Any]]:
    """Return for each limit its `value`, whether it is `unlimited`, and how many are `used` (None: not counted)."""
    account = session.get_one(Account, account_id)
    return {name: describe_limit(account, name) for name in ACCOUNT_LIMITS}


def describe_limit(account: Account, name: str) -> dict[str, Any]:
    value = getattr(account, name)
    return {"value": value, "unlimited": value == 0, "used": count_used(account.id, name)}


def count_used(account_id: str, name: str) -> int | None:
    """Return how many of what the limit counts the account has; None when the limit is not counted."""
    column = COUNTED_COLUMNS.get(name)
    if column is None:
        return None
    return session.scalar(select(func.count(column.distinct())).where(column.class_.account_id == account_id))


def ensure_one_more(account_id: str, name: str, error_field: str | None = None) -> None:
    """Raise when the account may not have one more of what the limit counts. The account stays locked until the
    transaction ends, so concurrent calls are counted one after the other."""
    lock_row(Account, account_id)
    ensure_below_limit(account_id, name, count_used(account_id, name), error_field)


def ensure_below_limit(account_id: str, name: str, used: int | None, error_field: str | None = None) -> None:
    """Raise when an account that has `used` may not have one more. What exceeds a lowered limit stays."""
    maximum = getattr(session.get(Account, account_id), name)
    if maximum and used is not None and used >= maximum:
        sentence = message(
            "The limit is {maximum}, and the account has {used}.", maximum=NOUNS[name](maximum), used=used
        )
        raise Invalid(sentence, reason="limit_reached", **({error_field: sentence} if error_field else {}))
