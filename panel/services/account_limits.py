"""How much of something one account may have (specification 2.9). 0 is unlimited."""

from sqlalchemy import func, select

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Account, Certificate
from panel.models.accounts import LIMIT_COLUMNS

COUNTED_MODELS: dict[str, type] = {
    "max_certificates": Certificate,
}
"""The rows that a limit counts: a resource names its model here. Until it does, nothing of it can be had."""


def describe_limits(account_id):
    """Each limit by name: its `value`, whether it is `unlimited`, and how many are `used` (None: not counted)."""
    account = session.get(Account, account_id)
    return {name: describe_limit(account, name) for name in LIMIT_COLUMNS}


def describe_limit(account, name):
    value = getattr(account, name)
    return {"value": value, "unlimited": value == 0, "used": count_used(account.id, name)}


def count_used(account_id, name):
    """How many the account has of what the limit counts; None where nothing is counted."""
    model = COUNTED_MODELS.get(name)
    return model and session.scalar(select(func.count()).where(model.account_id == account_id))


def ensure_one_more(account_id, name):
    """Raise when the account may not have one more of what `COUNTED_MODELS` has for the limit. The account stays locked
    until the end of the transaction, so of two concurrent calls the second one counts the first."""
    session.get(Account, account_id, with_for_update={"key_share": True}, populate_existing=True)
    ensure_below_limit(account_id, name, count_used(account_id, name))


def ensure_below_limit(account_id, name, used):
    """Raise when an account that has `used` may not have one more. What exceeds a lowered limit stays."""
    most = getattr(session.get(Account, account_id), name)
    if most and used >= most:
        what = name.removeprefix("max_").replace("_", " ")
        raise Invalid(f"The account may have {most} {what} at most, and has {used}.", reason="limit_reached")
