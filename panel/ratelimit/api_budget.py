"""How many requests a minute a token may make, and what answers say about it (decision NS-12).

Each kind of request has a budget of its own, which operators set: `requests`, and beside it `polls` (looking at tasks),
`metrics` and `consoles`. Who shows no valid token is counted by address.
"""

from flask import current_app, g

from panel.core.errors import TooMany
from panel.ratelimit import windows
from panel.services import settings

BUDGETS = ("requests", "polls", "metrics", "consoles")


def consume(budget, key, read_key=None):
    """Takes one request from the budget of `key`. Raises a 429 that says when to come back. Returns what Redis holds
    under the key `reading`."""
    most = getattr(settings.get(), f"rate_limit_{budget}")
    g.rate = window = windows.hit(budget, key, most, read_key=read_key)
    g.budget, g.most = budget, most
    if not window.allowed:
        raise TooMany(f"Only {most} {budget} a minute are allowed here.", seconds=window.reset)
    return window.read


def budgets_in_use():
    """The budgets in which some operation of this panel counts."""
    found = {getattr(view, "budget", None) for view in current_app.view_functions.values()}
    return [name for name in BUDGETS if name in found]


def set_headers(response):
    """Puts on an answer what is left, under the names in use and under those of the IETF's draft 8 and later."""
    if rate := g.get("rate"):
        response.headers.extend(
            {
                "RateLimit-Limit": g.most,
                "RateLimit-Remaining": rate.remaining,
                "RateLimit-Reset": rate.reset,
                "RateLimit": f'"{g.budget}";r={rate.remaining};t={rate.reset}',
                "RateLimit-Policy": f'"{g.budget}";q={g.most};w={windows.MINUTE_SECONDS}',
            }
        )
    return response
