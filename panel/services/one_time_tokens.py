"""Links that work once. Whoever has the secret may do one thing, until a moment, and then nobody may."""

import secrets

from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import session
from panel.models import OneTimeToken
from panel.services.tokens import hash_secret

PASSWORD_RESET = "reset"
"""Of a link that was mailed: it sets a new password."""


def create(account, purpose, lifetime, redirect_to=None):
    """A new link and its secret, which cannot be had again."""
    secret = secrets.token_urlsafe(32)
    link = OneTimeToken(
        account_id=account.id,
        purpose=purpose,
        secret_hash=hash_secret(secret),
        expires_at=clock.now() + lifetime,
        leads_to=redirect_to,
    )
    session.add(link)
    session.flush()
    return link, secret


def find(secret, purpose):
    """The link that may still be used, or None. Looking does not use it: mail programs open links before people do."""
    open_ = select(OneTimeToken).where(OneTimeToken.secret_hash == hash_secret(secret), OneTimeToken.purpose == purpose)
    return session.scalar(open_.where(OneTimeToken.expires_at > clock.now()))


def consume(secret, purpose):
    """The link, used up, or None when it was used, has expired or never was. Of two that use it at once one gets it."""
    link = find(secret, purpose)
    if link is None:
        return None
    used = session.execute(
        delete(OneTimeToken).where(OneTimeToken.id == link.id), execution_options={"synchronize_session": False}
    )
    session.expunge(link)
    return link if used.rowcount else None


def revoke_all(account, purpose):
    """Makes the account's open links of this kind worthless."""
    session.execute(delete(OneTimeToken).where(OneTimeToken.account_id == account.id, OneTimeToken.purpose == purpose))


def purge_expired():
    session.execute(delete(OneTimeToken).where(OneTimeToken.expires_at < clock.now()))
