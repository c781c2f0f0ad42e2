"""Finding certificates. What a status means is said in the model, and here once more in the database's words."""

from sqlalchemy import String, and_, cast, or_, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Certificate, Task
from panel.models.certificates import EXPIRY_WARNING

SORT_COLUMNS = {"created_at": Certificate.id, "name": Certificate.name, "not_after": Certificate.not_after}


def listing(account, *, search=None, status=None, type=None, sort="created_at", dir="desc"):
    """The account's certificates, newest first unless another order is asked for. What has no end yet comes last."""
    query = select(Certificate).where(account.visible_rows(Certificate))
    if search:
        words = (Certificate.name, cast(Certificate.domains, String))
        query = query.where(or_(*(each.icontains(search, autoescape=True) for each in words)))
    if status:
        query = query.where(status_condition(status))
    if type:
        query = query.where(Certificate.type == type)
    ordered = SORT_COLUMNS[sort].desc() if dir == "desc" else SORT_COLUMNS[sort].asc()
    return query.order_by(ordered.nulls_last(), Certificate.id.desc())


def status_condition(status):
    """The condition that a certificate has this status now."""
    now, end = clock.now(), Certificate.not_after
    return {
        "pending": and_(end.is_(None), Certificate.error.is_(None)),
        "failed": and_(end.is_(None), Certificate.error.is_not(None)),
        "expired": end <= now,
        "expiring": and_(end > now, end <= now + EXPIRY_WARNING),
        "active": end > now + EXPIRY_WARNING,
    }[status]


def get(certificate_id, account):
    found = session.scalar(
        select(Certificate).where(Certificate.id == certificate_id, account.visible_rows(Certificate))
    )
    if found is None:
        raise NotFound("No such certificate.")
    return found


def find_latest_order(row):
    """The task of the latest order, or None."""
    return session.get(Task, row.task_id) if row.task_id else None
