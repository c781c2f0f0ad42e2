"""Idempotency keys: requests that are sent twice are carried out once (`Idempotency-Key` of the API)."""

from datetime import timedelta

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.exc import IntegrityError

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import IdempotencyKey

IDEMPOTENCY_KEY_RETENTION = timedelta(hours=24)


def get_or_create(token_id: str, key: str, request_hash: str) -> IdempotencyKey:
    """Return the row of this token's request with the key. Its `status` is 0 when the request is new: the caller writes
    the answer there in the same transaction. A concurrent request waits for that commit, or is carried out itself when
    the first one failed. Raise when the key was used for a different request."""
    session.execute(
        delete(IdempotencyKey).where(
            IdempotencyKey.token_id == token_id, IdempotencyKey.key == key, expired_condition()
        )
    )
    row = IdempotencyKey(token_id=token_id, key=key, request_hash=request_hash)
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        row = session.scalars(
            select(IdempotencyKey).where(IdempotencyKey.token_id == token_id, IdempotencyKey.key == key)
        ).one()
    if row.request_hash != request_hash:
        raise Invalid(message("This Idempotency-Key was used for another request. Use a new key for each request."))
    return row


def expired_condition() -> ColumnElement[bool]:
    return IdempotencyKey.created_at < clock.now() - IDEMPOTENCY_KEY_RETENTION


def purge_expired() -> None:
    session.execute(delete(IdempotencyKey).where(expired_condition()))
