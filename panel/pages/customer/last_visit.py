"""When the person last looked at the overview in this browser: a cookie, so that looking writes no row."""

import re
from datetime import UTC, datetime, timedelta

from flask import after_this_request, current_app, request

from panel.auth.browser_session import get_current_account
from panel.core import clock

COOKIE_NAME = "panel_visit"
COOKIE_SECONDS = 365 * 86400
VISIT_GAP = timedelta(minutes=30)
"""A visit ends when the overview was not looked at for this long."""
UPDATE_INTERVAL = timedelta(minutes=1)
"""The cookie is sent again after this time; an open page asks every few seconds."""
COOKIE_PATTERN = re.compile(r"([0-9a-f-]{36})\.([0-9]{1,11})\.([0-9]{1,11})")


def track_last_visit():
    """Return when the visit before the current one ended, or None if there was none. The answer updates the cookie."""
    account_id, now = get_current_account().id, clock.now().replace(microsecond=0)
    previous, seen = read_cookie(account_id)
    if seen and now - seen > VISIT_GAP:
        previous = seen
    if seen is None or now - seen > UPDATE_INTERVAL:
        value = f"{account_id}.{int(previous.timestamp()) if previous else 0}.{int(now.timestamp())}"
        after_this_request(lambda response: set_cookie(response, value))
    return previous


def read_cookie(account_id):
    """Return the end of the earlier visit and when the current one was last seen; None for what is not known."""
    match = COOKIE_PATTERN.fullmatch(request.cookies.get(COOKIE_NAME, ""))
    if match is None or match[1] != account_id:
        return None, None
    previous, seen = (datetime.fromtimestamp(int(text), UTC) if int(text) else None for text in match.groups()[1:])
    is_valid = all(moment is None or moment <= clock.now() for moment in (previous, seen))
    return (previous, seen) if is_valid else (None, None)


def set_cookie(response, value):
    is_secure = current_app.config["SESSION_COOKIE_SECURE"]
    response.set_cookie(
        COOKIE_NAME, value, max_age=COOKIE_SECONDS, secure=is_secure, httponly=True, samesite="Lax"
    )  # fmt: skip
    return response
