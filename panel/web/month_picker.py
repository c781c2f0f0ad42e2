"""The month picker of pages with monthly usage."""

from flask import abort, request

from panel.core import clock
from panel.core.db import session
from panel.schemas.usage import MONTH_RULE
from panel.services import usage

MAX_MONTHS = 24
"""The most months to choose from."""


def parse_requested_month():
    """Return the `month` parameter of the request, by default the current month. Abort with 404 when it is invalid."""
    month = request.args.get("month") or get_current_month()
    if not MONTH_RULE.regex.match(month):
        abort(404)
    return month


def get_current_month():
    return usage.make_month_key(clock.now())


def list_month_choices(account=None):
    """Return (month, label) pairs, latest first: the months with usage of the account (of all accounts when None), the
    current and the requested month."""
    months = {row.month for row in session.execute(usage.select_months(account).limit(MAX_MONTHS))}
    return [
        (month, usage.month_label(month))
        for month in sorted(months | {get_current_month(), parse_requested_month()}, reverse=True)
    ]
