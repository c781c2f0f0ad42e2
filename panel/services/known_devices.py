"""Browsers in which somebody has signed in before. They are known by a cookie of their own, which outlives sessions.

One that is known has its own budget of attempts, so nobody can shut it out by guessing; one that is not known is
reported to the account's owner.
"""

import secrets
from datetime import timedelta

from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, Device
from panel.services.tokens import hashed

KEPT = timedelta(days=365)
"""After its last sign-in."""

BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)
"""Marks in what browsers call themselves; the first that is there counts."""


def called(user_agent):
    """What people call it: `Firefox on Linux`."""
    name = next((word for mark, word in BROWSERS if mark in user_agent), "Another program")
    system = next((word for mark, word in SYSTEMS if mark in user_agent), None)
    return f"{name} on {system}" if system else name


def known(email, secret):
    """The browser with this cookie, if the person with this address has signed in there."""
    if not secret:
        return None
    found = select(Device).join(Account, Account.id == Device.account_id)
    return session.scalar(found.where(Account.email == email.strip().lower(), Device.secret_hash == hashed(secret)))


def remember(account, secret, source):
    """Notes the sign-in of a browser. Returns the device, the secret for its cookie and whether it was unknown."""
    device = known(account.email, secret)
    if device:
        device.user_agent, device.ip, device.last_seen_at = source.user_agent, source.ip, clock.now()
        return device, secret, False
    secret = secret or secrets.token_urlsafe(32)
    device = Device(
        account_id=account.id,
        secret_hash=hashed(secret),
        user_agent=source.user_agent,
        ip=source.ip,
        last_seen_at=clock.now(),
    )
    session.add(device)
    session.flush()
    return device, secret, True


def forget(account):
    """No browser is known any more: whoever had the password may have made his own known."""
    session.execute(delete(Device).where(Device.account_id == account.id))


def tidy():
    session.execute(delete(Device).where(Device.last_seen_at < clock.now() - KEPT))
