"""Known devices: browsers in which somebody signed in before. They have a cookie of their own, which outlives sessions.

A known device has its own budget of sign-in attempts, so nobody can lock its user out by guessing. A sign-in from an
unknown one is reported to the account's owner.
"""

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import session
from panel.core.messages import message
from panel.models import Account, KnownDevice
from panel.services.tokens import hash_secret

if TYPE_CHECKING:
    from panel.services.security_notifications import Source

DEVICE_RETENTION = timedelta(days=365)
"""Time after the last sign-in."""

BROWSER_PATTERNS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEM_PATTERNS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)
"""Parts of user-agent strings, with the name to show; the first match counts."""


def describe_user_agent(user_agent: str) -> str:
    """Return a readable name such as `Firefox on Linux`."""
    name = next((label for mark, label in BROWSER_PATTERNS if mark in user_agent), message("Another program"))
    system = next((label for mark, label in SYSTEM_PATTERNS if mark in user_agent), None)
    return message("{browser} on {system}", browser=name, system=system) if system else name


def find(email: str, secret: str | None) -> KnownDevice | None:
    """Return the device with this cookie, if the account with this email address has signed in there."""
    if not secret:
        return None
    query = select(KnownDevice).join(Account, Account.id == KnownDevice.account_id)
    return session.scalar(
        query.where(Account.email == email.strip().lower(), KnownDevice.secret_hash == hash_secret(secret))
    )


def remember(account: Account, secret: str | None, source: "Source") -> tuple[KnownDevice, str, bool]:
    """Record a sign-in. Return the device, the secret for its cookie and whether it is new."""
    if secret and (device := find(account.email, secret)):
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


def forget(account: Account) -> None:
    """Delete all known devices of the account: somebody with a stolen password may have added one."""
    session.execute(delete(KnownDevice).where(KnownDevice.account_id == account.id))


def purge_expired() -> None:
    session.execute(delete(KnownDevice).where(KnownDevice.last_seen_at < clock.now() - DEVICE_RETENTION))
