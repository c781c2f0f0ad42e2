"""Audit entries: writing, listing and exporting them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

import orjson
from sqlalchemy import Row, Select, and_, case, not_, or_, select

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Account, AuditEntry, Member
from panel.services.access import Access
from panel.services.audit.change_tracking import RANK_SECONDARY, TrackedChange

MAX_EXPORTED_ENTRIES = 100_000
EXPORT_BATCH_SIZE = 1000
"""Rows that an export has in memory at once."""
EXPORT_COLUMNS = (
    *("id", "created_at", "person", "person_kind", "impersonator", "token_name", "ip"),
    *("action", "object_type", "object_id", "object_name", "changes", "also"),
)
"""Columns of an export, in their order."""
REDACTED_COLUMNS = ("ip", "token_id", "token_name", "also")
"""Columns that customers do not see of the platform's actions. `also` may name objects of other customers."""
MAX_RELATED_OBJECTS = 200
"""How many further objects an entry names."""


def write(
    *, address_ids: Mapping[str, str] | None = None, always: bool = False, account_id: str | None = None, **facts: Any
) -> AuditEntry | None:
    """Add the entry for this transaction and return it. `address_ids` are the ids in the request's path by name. The
    object is the last of them that was changed, else a row that was created or removed, else one that changed. Without
    changes an entry is added only with `always`."""
    session.flush()
    changes = session.info.pop("touched", None) or {}
    if not changes and not always:
        return None
    address_ids = address_ids or {}
    address_order = list(address_ids.values())
    rows = sorted(changes.values(), key=lambda row: (is_foreign(row, account_id), row.rank))
    rows.sort(key=lambda row: -address_order.index(row.id) if row.id in address_order else 1)
    main = rows[0] if rows else TrackedChange("", "", did="asked")
    if not main.id and address_ids:  # only the request's path names the object
        name, value = list(address_ids.items())[-1]
        main = TrackedChange(name.removesuffix("_id"), value, "", main.account_id, did=main.did)
    others = [str(row) for row in rows[1:] if row.rank < RANK_SECONDARY and not is_foreign(row, account_id)]
    return add(
        account_id=account_id or main.account_id,
        object_type=main.kind[:48] or None,
        object_id=main.id[:64] or None,
        object_name=main.name or None,
        changes=main.changes,
        also=others[:MAX_RELATED_OBJECTS],
        **facts,
    )


def is_foreign(row: TrackedChange, account_id: str | None) -> bool:
    """Return whether a customer's request changed this row although it is not the customer's, for example the
    hypervisor of a new instance."""
    return account_id is not None and row.account_id != account_id


def add(**facts: Any) -> AuditEntry:
    """Add an entry from these columns, for actions that change no row, such as a refused sign-in."""
    entry = AuditEntry(**facts)
    session.add(entry)
    session.flush()
    return entry


def add_failed_sign_in(email: str, **facts: Any) -> AuditEntry:
    """Add the entry for a refused sign-in with this email address, in the audit log of its account if there is one."""
    email = email.strip().lower()
    query = select(Account.id, Member.owner_id).outerjoin(Member, Member.account_id == Account.id)
    person_id, owner_id = session.execute(query.where(Account.email == email)).one_or_none() or (None, None)
    person = email if "@" in email else "nobody"  # do not store a password that was typed into the wrong field
    return add(
        account_id=owner_id or person_id,
        person=person[:255],
        person_id=person_id,
        person_kind="nobody",
        object_type="account",
        object_id=person_id,
        object_name=person[:255],
        changes={"did": "refused"},
        **facts,
    )


def can_see_full_log(access: Access) -> bool:
    """Return whether the person sees the account's whole audit log. It names all resources, so members with chosen
    resources do not."""
    return access.has_permission("team.manage") and access.reach == "all"


def listing(
    access: Access | None = None,
    *,
    account_id: str | None = None,
    search: str | None = None,
    action: str | None = None,
    person: str | None = None,
    object_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Select[AuditEntry]:
    """Select entries, newest first. With an access, those of its account, or only the person's own actions when
    `can_see_full_log` is false."""
    query = select(AuditEntry).order_by(AuditEntry.id.desc())
    if access:
        query = query.where(AuditEntry.account_id == access.id)
        if not can_see_full_log(access):
            query = query.where(AuditEntry.person_id == access.person_id)
    if search:
        searched_columns = (AuditEntry.person, AuditEntry.object_name, AuditEntry.action, AuditEntry.impersonator)
        matches = [column.icontains(search, autoescape=True) for column in searched_columns]
        by_source = or_(AuditEntry.ip == search, AuditEntry.token_id == search)
        query = query.where(
            or_(
                AuditEntry.object_id == search,
                and_(by_source, not_(AuditEntry.by_platform)) if access else by_source,
                *matches,
            )
        )
    if person:
        columns = AuditEntry.person, AuditEntry.person_id, AuditEntry.impersonator
        query = query.where(or_(*(column == person for column in columns)))
    for name, value in (("account_id", account_id), ("action", action), ("object_id", object_id)):
        if value:
            query = query.where(getattr(AuditEntry, name) == value)
    if since:
        query = query.where(AuditEntry.created_at >= since)
    return query.where(AuditEntry.created_at <= until) if until else query


def with_full_columns(query: Select) -> Select:
    """Select all columns of the query's entries, with the email address of the account of each."""
    return query.outerjoin(Account, Account.id == AuditEntry.account_id).with_only_columns(
        *AuditEntry.__table__.columns, Account.email.label("account_email")
    )


def with_redacted_columns(query: Select) -> Select:
    """Select all columns of the query's entries, without `REDACTED_COLUMNS` where the platform acted."""
    return query.with_only_columns(
        *(
            case((not_(AuditEntry.by_platform), column)).label(column.name)
            if column.name in REDACTED_COLUMNS
            else column
            for column in AuditEntry.__table__.columns
        )
    )


def get(entry_id: str, access: Access | None = None) -> AuditEntry:
    entry = session.scalar(listing(access).where(AuditEntry.id == entry_id))
    if entry is None:
        raise NotFound(message("There is no such entry in the audit log."))
    return entry


def iter_export(query: Select) -> Iterator[list[Any]]:
    """Yield the rows of a listing, at most `MAX_EXPORTED_ENTRIES`, read in batches to bound memory."""
    return (
        [format_cell(row, name) for name in EXPORT_COLUMNS] for row in islice(iter_batches(query), MAX_EXPORTED_ENTRIES)
    )


def format_cell(row: Any, name: str) -> Any:
    value = getattr(row, name)
    if name in ("changes", "also"):
        return orjson.dumps(value).decode() if value else None
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z") if name == "created_at" else value


def iter_batches(query: Select) -> Iterator[Row]:
    last_id = None
    while True:
        older = query.where(AuditEntry.id < last_id) if last_id else query
        rows = session.execute(older.limit(EXPORT_BATCH_SIZE)).all()
        yield from rows
        if len(rows) < EXPORT_BATCH_SIZE:
            return
        last_id = rows[-1].id
