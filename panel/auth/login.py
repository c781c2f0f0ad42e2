"""How a browser becomes a signed-in one: one step or two, which device it is, and who is told.

Between the steps the signed cookie names the account for five minutes. That opens nothing: no page but the second step
looks at it, and it is worthless once the password has changed.
"""

import hmac
from datetime import timedelta
from hashlib import sha256

from flask import after_this_request, current_app, request, session

from panel.auth.browser_session import log_in
from panel.auth.tokens import source_address
from panel.core import clock
from panel.core.db import session as rows
from panel.models import Account
from panel.services import factors, known_devices, security_notifications
from panel.services.passkeys import Challenge, Site
from panel.services.security_notifications import Source

DEVICE_COOKIE = "panel_device"
SECOND_FACTOR_TTL = timedelta(minutes=5)


def request_source():
    """Where this request comes from."""
    return Source(str(source_address()), request.user_agent.string[:400])


def passkey_site():
    """What this installation's passkeys are bound to."""
    return Site.of(current_app.extensions["config"].public_url)


def find_known_device(email):
    """The browser, if the person with this address has signed in with it before."""
    return known_devices.find(email, request.cookies.get(DEVICE_COOKIE))


def start_login(account):
    """The password was right. Returns whether that was all; else the second step is next."""
    if not factors.has_second_factor(account):
        complete_login(account)
        return True
    session.clear()
    session["half"] = [account.id, password_fingerprint(account), int((clock.now() + SECOND_FACTOR_TTL).timestamp())]
    return False


def pending_second_factor():
    """The account whose password this browser has given, while its second step may still be made; else None."""
    account_id, marked, until = session.get("half") or (None, "", 0)
    account = rows.get(Account, account_id) if until > clock.now().timestamp() else None
    return account if account and hmac.compare_digest(password_fingerprint(account), marked) else None


def password_fingerprint(account):
    return sha256((account.password_hash or "").encode()).hexdigest()[:16]


def complete_login(account):
    """Signs the browser in. The person is told by mail when it was not seen before, but for the very first time."""
    device, unknown = remember_device(account)
    if unknown and account.last_login_at:
        security_notifications.new_device(account, request_source())
    account.last_login_at = clock.now()
    log_in(account, device)


def remember_device(account):
    """From now on the browser is one that the person is known to use: others who guess do not shut it out. Returns the
    device and whether it was unknown."""
    device, secret, unknown = known_devices.remember(account, request.cookies.get(DEVICE_COOKIE), request_source())
    after_this_request(lambda answer: set_device_cookie(answer, secret))
    return device, unknown


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
    """Keeps what a passkey is asked to sign until the answer comes."""
    session["challenge"] = [purpose, *challenge]


def pop_challenge(purpose):
    """The challenge that was given to this browser for the purpose, once; or None."""
    asked_for, *kept = session.pop("challenge", (None,))
    return Challenge(*kept) if asked_for == purpose else None
