"""Signed-in browsers."""

import secrets
from datetime import timedelta

from sqlalchemy import delete, select

from panel import clock
from panel.db import session
from panel.models import SignIn
from panel.services.tokens import hashed

LIFETIME = timedelta(days=14)


def start(account, *, ip, user_agent):
    """Begins a session and returns the secret for the cookie."""
    value = secrets.token_urlsafe(32)
    session.add(
        SignIn(
            account=account,
            secret_hash=hashed(value),
            expires_at=clock.now() + LIFETIME,
            ip=ip,
            user_agent=user_agent[:400],
        )
    )
    session.flush()
    return value


def find(value):
    """The running session of this cookie, or None."""
    found = session.scalar(select(SignIn).where(SignIn.secret_hash == hashed(value)))
    return found if found and found.expires_at > clock.now() else None


def listing(account):
    """Running sessions, newest first."""
    running = select(SignIn).where(SignIn.account_id == account.id, SignIn.expires_at > clock.now())
    return running.order_by(SignIn.id.desc())


def end_one(account, sign_in_id):
    session.execute(delete(SignIn).where(SignIn.id == sign_in_id, SignIn.account_id == account.id))


def end_others(account, kept):
    """Signs every browser out but one."""
    session.execute(delete(SignIn).where(SignIn.account_id == account.id, SignIn.id != kept.id))


def end(value):
    session.execute(delete(SignIn).where(SignIn.secret_hash == hashed(value)))
