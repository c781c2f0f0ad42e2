"""Choosing one of the months that there is something to show of."""

from flask import abort, request

from panel.core import clock
from panel.core.db import session
from panel.schemas.usage import MONTH_RULE
from panel.services import usage

MAX_MONTHS = 24
"""How many there are to choose from."""


def requested_month():
    """The month that the address asks for, by default this one."""
    month = request.args.get("month") or current_month()
    if not MONTH_RULE.regex.match(month):
        abort(404)
    return month


def current_month():
    return usage.make_month_key(clock.now())


def month_choices(account=None):
    """Months with usage, of the account or of anybody, this one and the one that is asked for, the latest first; with
    their names."""
    used = {row.month for row in session.execute(usage.select_months(account).limit(MAX_MONTHS))}
    return [
        (month, usage.month_label(month)) for month in sorted(used | {current_month(), requested_month()}, reverse=True)
    ]
