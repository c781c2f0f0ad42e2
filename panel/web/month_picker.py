"""Choosing one of the months that there is something to show of."""

from flask import abort, request

from panel.core import clock
from panel.core.db import session
from panel.schemas.usage import MONTH
from panel.services import usage

MOST = 24
"""How many there are to choose from."""


def asked():
    """The month that the address asks for, by default this one."""
    month = request.args.get("month") or this()
    if not MONTH.regex.match(month):
        abort(404)
    return month


def this():
    return usage.month_of(clock.now())


def choices(account=None):
    """Months with usage, of the account or of anybody, this one and the one that is asked for, the latest first; with
    their names."""
    used = {row.month for row in session.execute(usage.months(account).limit(MOST))}
    return [(month, usage.named(month)) for month in sorted(used | {this(), asked()}, reverse=True)]
