"""Browsers in which somebody has signed in before. They are known by a cookie of their own, which outlives sessions.

One that is known has its own budget of attempts, so nobody can shut it out by guessing; one that is not known is
reported to the account's owner.
"""

import secrets
from datetime import timedelta

from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, KnownDevice
from panel.services.tokens import hash_secret

DEVICE_RETENTION = timedelta(days=365)
"""After its last sign-in."""

BROWSER_MARKS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEM_MARKS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)
"""Marks in what browsers call themselves; the first that is there counts."""


def describe_user_agent(user_agent):
    """What people call it: `Firefox on Linux`."""
    name = next((word for mark, word in BROWSER_MARKS if mark in user_agent), "Another program")
    system = next((word for mark, word in SYSTEM_MARKS if mark in user_agent), None)
    return f"{name} on {system}" if system else name


def find(email, secret):
    """The browser with this cookie, if the person with this address has signed in there."""
    if not secret:
        return None
    found = select(KnownDevice).join(Account, Account.id == KnownDevice.account_id)
    return session.scalar(
        found.where(Account.email == email.strip().lower(), KnownDevice.secret_hash == hash_secret(secret))
    )


def remember(account, secret, source):
    """Notes the sign-in of a browser. Returns the device, the secret for its cookie and whether it was unknown."""
    device = find(account.email, secret)
    if device:
        device.user_agent, device.ip, device.last_seen_at = source.user_agent, source.ip, clock.now()
        return device, secret, False
    secret = secret or secrets.token_urlsafe(32)
    device = KnownDevice(
        account_id=account.id,
        secret_hash=hash_secret(secret),
        user_agent=source.user_agent,
        ip=source.ip,
        last_seen_at=clock.now(),
    )
    session.add(device)
    session.flush()
    return device, secret, True


def forget(account):
    """No browser is known any more: whoever had the password may have made his own known."""
    session.execute(delete(KnownDevice).where(KnownDevice.account_id == account.id))


def purge_expired():
    session.execute(delete(KnownDevice).where(KnownDevice.last_seen_at < clock.now() - DEVICE_RETENTION))
