"""Links that work once. Whoever has the secret may do one thing, until a moment, and then nobody may."""

import secrets

from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import session
from panel.models import Link
from panel.services.tokens import hashed

RESET = "reset"
"""Of a link that was mailed: it sets a new password."""


def make(account, purpose, lifetime, leads_to=None):
    """A new link and its secret, which cannot be had again."""
    secret = secrets.token_urlsafe(32)
    link = Link(
        account_id=account.id,
        purpose=purpose,
        secret_hash=hashed(secret),
        expires_at=clock.now() + lifetime,
        leads_to=leads_to,
    )
    session.add(link)
    session.flush()
    return link, secret


def find(secret, purpose):
    """The link that may still be used, or None. Looking does not use it: mail programs open links before people do."""
    open_ = select(Link).where(Link.secret_hash == hashed(secret), Link.purpose == purpose)
    return session.scalar(open_.where(Link.expires_at > clock.now()))


def use(secret, purpose):
    """The link, used up, or None when it was used, has expired or never was. Of two that use it at once one gets it."""
    link = find(secret, purpose)
    if link is None:
        return None
    used = session.execute(delete(Link).where(Link.id == link.id), execution_options={"synchronize_session": False})
    session.expunge(link)
    return link if used.rowcount else None


def end(account, purpose):
    """Makes the account's open links of this kind worthless."""
    session.execute(delete(Link).where(Link.account_id == account.id, Link.purpose == purpose))


def tidy():
    session.execute(delete(Link).where(Link.expires_at < clock.now()))
