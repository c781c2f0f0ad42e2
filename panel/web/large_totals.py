"""Totals of long lists: to count a million rows takes longer than to load one page of them.

Each web process stores a total from `LARGE_TOTAL` on for `LARGE_TOTAL_TTL_SECONDS`. Shorter lists are counted at each
request. The key is the statement with its parameters, so a total is used only for the same filters of the same caller.
"""

import time

from panel.core import context
from panel.core.db import session

LARGE_TOTAL = 100_000
LARGE_TOTAL_TTL_SECONDS = 30
MAX_LARGE_TOTALS = 1000


def find(count):
    """Return the stored total of a select that counts rows, or None."""
    totals = context.current().large_totals
    if not totals:
        return None
    total, until = totals.get(build_key(count), (None, 0))
    return total if until > time.monotonic() else None


def store(count, total):
    """Store the total of a select that counts rows, if it is large."""
    if total < LARGE_TOTAL:
        return
    totals = context.current().large_totals
    if len(totals) >= MAX_LARGE_TOTALS:
        totals.clear()
    totals[build_key(count)] = total, time.monotonic() + LARGE_TOTAL_TTL_SECONDS


def build_key(count):
    compiled = count.compile(dialect=session.get_bind().dialect)
    return str(compiled), repr(sorted(compiled.params.items()))
