"""Rate limits of the APIs, per token and minute, and their response headers (decision NS-12).

Operators set a budget for each kind of request: `requests`, `polls` (reading tasks), `metrics` and `consoles`. Requests
without a valid token are counted by address.
"""

from flask import current_app, g

from panel.core.errors import TooMany
from panel.core.messages import message
from panel.ratelimit import windows
from panel.services import settings

API_BUDGETS = ("requests", "polls", "metrics", "consoles")


def consume(budget, key, read_key=None):
    """Count one request of `key` in the budget. Return the value of `read_key` in Redis. Raise TooMany when the budget
    is exceeded."""
    maximum = getattr(settings.get(), f"rate_limit_{budget}")
    g.rate = window = windows.count_use(budget, key, maximum, read_key=read_key)
    g.budget, g.limit = budget, maximum
    if not window.allowed:
        raise TooMany(
            message("Only {maximum} {budget} a minute are allowed here.", maximum=maximum, budget=budget),
            seconds=window.reset,
        )
    return window.read


def list_budgets_in_use():
    """Return the budgets that at least one operation of this panel uses."""
    used = {getattr(view, "budget", None) for view in current_app.view_functions.values()}
    return [name for name in API_BUDGETS if name in used]


def set_headers(response):
    """Set the rate limit headers, under the usual names and under those of the IETF draft from version 8 on."""
    if rate := g.get("rate"):
        response.headers.extend(
            {
                "RateLimit-Limit": g.limit,
                "RateLimit-Remaining": rate.remaining,
                "RateLimit-Reset": rate.reset,
                "RateLimit": f'"{g.budget}";r={rate.remaining};t={rate.reset}',
                "RateLimit-Policy": f'"{g.budget}";q={g.limit};w={windows.MINUTE_SECONDS}',
            }
        )
    return response
