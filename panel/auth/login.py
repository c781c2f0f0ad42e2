"""The login of a browser: one or two steps, the known device, and the mail about a new one.

Between the steps the signed cookie names the account for five minutes. Only the page of the second step uses it, and it
becomes invalid when the password changes.
"""

import hmac
from datetime import timedelta
from hashlib import sha256

from flask import after_this_request, current_app, request, session

from panel.auth.browser_session import find_browser_language, log_in
from panel.auth.tokens import get_source_address
from panel.core import clock
from panel.core.db import session as db_session
from panel.models import Account
from panel.services import brands, factors, known_devices, security_notifications
from panel.services.passkeys import Challenge, Site
from panel.services.security_notifications import Source

DEVICE_COOKIE = "panel_device"
SECOND_FACTOR_TTL = timedelta(minutes=5)


def get_request_source():
    """Return the address and the user agent of this request."""
    return Source(str(get_source_address()), request.user_agent.string[:400])


def get_passkey_site():
    """Return the site that passkeys of this request's brand are bound to."""
    return Site.from_url(brands.get_current().url)


def find_known_device(email):
    """Return the known device of this browser for the person with this email address, or None."""
    return known_devices.find(email, request.cookies.get(DEVICE_COOKIE))


def start_login(account):
    """Continue after the right password. Return True when the login is complete, False when a second factor follows."""
    if not factors.has_second_factor(account):
        complete_login(account)
        return True
    session.clear()
    session["half"] = [
        account.id,
        make_password_fingerprint(account),
        int((clock.now() + SECOND_FACTOR_TTL).timestamp()),
    ]
    return False


def find_pending_second_factor():
    """Return the account that waits for its second factor in this browser; None when there is none or it expired."""
    account_id, fingerprint, expires_at = session.get("half") or (None, "", 0)
    account = db_session.get(Account, account_id) if expires_at > clock.now().timestamp() else None
    return account if account and hmac.compare_digest(make_password_fingerprint(account), fingerprint) else None


def make_password_fingerprint(account):
    return sha256((account.password_hash or "").encode()).hexdigest()[:16]


def complete_login(account):
    """Sign the browser in. Send a mail about an unknown device, except for the account's first login."""
    device, is_new = remember_device(account)
    if is_new and account.last_login_at:
        security_notifications.send_new_device(account, get_request_source())
    account.last_login_at = clock.now()
    account.browser_language = find_browser_language() or account.browser_language
    log_in(account, device)


def remember_device(account):
    """Record the browser as a known device, which has its own rate limit, and set its cookie. Return the device and
    whether it is new."""
    device, secret, is_new = known_devices.remember(account, request.cookies.get(DEVICE_COOKIE), get_request_source())
    after_this_request(lambda answer: set_device_cookie(answer, secret))
    return device, is_new


def set_device_cookie(answer, secret):
    answer.set_cookie(
        DEVICE_COOKIE,
        secret,
        max_age=known_devices.DEVICE_RETENTION,
        secure=current_app.extensions["config"].is_https,
        httponly=True,
        samesite="Lax",
    )
    return answer


def store_challenge(purpose, challenge: Challenge):
    """Store the challenge for a passkey in the session cookie until it is answered."""
    session["challenge"] = [purpose, *challenge]


def pop_challenge(purpose):
    """Remove and return the challenge of this browser; None when it is missing or for another purpose."""
    stored_purpose, *values = session.pop("challenge", (None,))
    return Challenge(*values) if stored_purpose == purpose else None
