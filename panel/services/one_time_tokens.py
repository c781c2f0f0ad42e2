"""One-time tokens: links that permit one action, once, until they expire."""

import secrets
from datetime import timedelta

from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import count_changed, session
from panel.models import Account, OneTimeToken
from panel.services.tokens import hash_secret

PASSWORD_RESET = "reset"
"""Purpose of a mailed link that sets a new password."""


def create(
    account: Account, purpose: str, lifetime: timedelta, redirect_to: str | None = None
) -> tuple[OneTimeToken, str]:
    """Create a link. Return it with its secret, which is not stored."""
    secret = secrets.token_urlsafe(32)
    link = OneTimeToken(
        account_id=account.id,
        purpose=purpose,
        secret_hash=hash_secret(secret),
        expires_at=clock.now() + lifetime,
        redirect_to=redirect_to,
    )
    session.add(link)
    session.flush()
    return link, secret


def find(secret: str, purpose: str) -> OneTimeToken | None:
    """Return the link if it may still be used, or None.

    This does not use it up, because mail programs open links before people do.
    """
    query = select(OneTimeToken).where(OneTimeToken.secret_hash == hash_secret(secret), OneTimeToken.purpose == purpose)
    return session.scalar(query.where(OneTimeToken.expires_at > clock.now()))


def consume(secret: str, purpose: str) -> OneTimeToken | None:
    """Use the link up and return it; None if it was used, has expired or never existed.

    Of two concurrent calls one gets it.
    """
    link = find(secret, purpose)
    if link is None:
        return None
    deleted = count_changed(delete(OneTimeToken).where(OneTimeToken.id == link.id), synchronize_session=False)
    session.expunge(link)
    return link if deleted else None


def revoke_all(account: Account, purpose: str) -> None:
    """Revoke the account's unused links of this purpose."""
    session.execute(delete(OneTimeToken).where(OneTimeToken.account_id == account.id, OneTimeToken.purpose == purpose))


def purge_expired() -> None:
    session.execute(delete(OneTimeToken).where(OneTimeToken.expires_at < clock.now()))
