"""Finding certificates. The conditions of the statuses repeat those of the model, in SQL."""

from sqlalchemy import ColumnElement, Select, String, and_, cast, or_, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Account, Certificate, Task
from panel.models.certificates import EXPIRY_WARNING
from panel.services.access import Access
from panel.services.search_kinds import customer_name_search, select_by_name

SORT_COLUMNS = {"created_at": Certificate.id, "name": Certificate.name, "not_after": Certificate.not_after}


def listing(
    account: Access | Account,
    *,
    search: str | None = None,
    status: str | None = None,
    type: str | None = None,
    sort: str = "created_at",
    dir: str = "desc",
) -> Select[Certificate]:
    """Select the account's certificates, newest first by default. Those without an end date come last."""
    query = select(Certificate).where(account.visible_rows(Certificate))
    if search:
        columns = (Certificate.name, cast(Certificate.domains, String))
        query = query.where(or_(*(column.icontains(search, autoescape=True) for column in columns)))
    if status:
        query = query.where(status_condition(status))
    if type:
        query = query.where(Certificate.type == type)
    order = SORT_COLUMNS[sort].desc() if dir == "desc" else SORT_COLUMNS[sort].asc()
    return query.order_by(order.nulls_last(), Certificate.id.desc())


def status_condition(status: str) -> ColumnElement[bool]:
    """Return the condition that a certificate has this status now."""
    now, end = clock.now(), Certificate.not_after
    return {
        "pending": and_(end.is_(None), Certificate.error.is_(None)),
        "failed": and_(end.is_(None), Certificate.error.is_not(None)),
        "expired": end <= now,
        "expiring": and_(end > now, end <= now + EXPIRY_WARNING),
        "active": end > now + EXPIRY_WARNING,
    }[status]


def select_with_problems(account: Access | Account) -> Select[Certificate]:
    """Select certificates that have expired, or whose last order failed."""
    has_problem = or_(Certificate.error.is_not(None), status_condition("expired"))
    return select(Certificate).where(account.visible_rows(Certificate), has_problem)


def get(certificate_id: str, account: Access | Account) -> Certificate:
    row = session.scalar(select(Certificate).where(Certificate.id == certificate_id, account.visible_rows(Certificate)))
    if row is None:
        raise NotFound(message("No such certificate."))
    return row


def find_latest_order(row: Certificate) -> Task | None:
    """Return the task of the latest order, or None."""
    return session.get(Task, row.task_id) if row.task_id else None


@customer_name_search("certificate", "certificates", permission="certificates.view", position=26)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    query = select_by_name(Certificate, Certificate.name, Certificate.type, search)
    return query.where(access.visible_rows(Certificate))
