"""The entries: written, found and read."""

from itertools import islice

import orjson
from sqlalchemy import and_, case, not_, or_, select

from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Account, AuditEntry, Member
from panel.services.audit.change_tracking import RANK_SECONDARY, TrackedChange

MAX_EXPORTED_ENTRIES = 100_000
EXPORT_BATCH_SIZE = 1000
"""How many rows an export holds in memory."""
EXPORT_COLUMNS = (
    *("id", "created_at", "person", "person_kind", "impersonator", "token_name", "ip"),
    *("action", "object_type", "object_id", "object_name", "changes", "also"),
)
"""The columns of an export."""
REDACTED_COLUMNS = ("ip", "token_id", "token_name", "also")
"""What customers are not told of what the platform did: what was touched along with it may be somebody else's."""
MAX_RELATED_OBJECTS = 200
"""How many further objects an entry names."""


def write(*, about=None, always=False, account_id=None, **who):
    """Adds the entry for this transaction. `about` are the ids in the request's path by their names: the object is the
    last of them that was touched, else what was made or removed, else what changed. A transaction that touched nothing
    leaves an entry only if it `always` has to."""
    session.flush()
    touched = session.info.pop("touched", None) or {}
    if not touched and not always:
        return None
    about = about or {}
    ids = list(about.values())
    rows = sorted(touched.values(), key=lambda row: (is_foreign(row, account_id), row.rank))
    rows.sort(key=lambda row: -ids.index(row.id) if row.id in ids else 1)
    main = rows[0] if rows else TrackedChange("", "", did="asked")
    if not main.id and about:  # known by its address alone
        name, value = list(about.items())[-1]
        main = TrackedChange(name.removesuffix("_id"), value, "", main.account_id, did=main.did)
    others = [str(row) for row in rows[1:] if row.rank < RANK_SECONDARY and not is_foreign(row, account_id)]
    return add(
        account_id=account_id or main.account_id,
        object_type=main.kind[:48] or None,
        object_id=main.id[:64] or None,
        object_name=main.name or None,
        changes=main.changes,
        also=others[:MAX_RELATED_OBJECTS],
        **who,
    )


def is_foreign(row, account_id):
    """Whether a customer's request touched it without it being the customer's: a node that gives room, for example."""
    return account_id is not None and row.account_id != account_id


def add(**facts):
    """Adds an entry as it is: for what leaves no row behind, such as a refused sign-in."""
    entry = AuditEntry(**facts)
    session.add(entry)
    session.flush()
    return entry


def add_failed_sign_in(email, **where):
    """Adds the entry for somebody who did not get in with this address, in its account's trail if there is one."""
    email = email.strip().lower()
    found = select(Account.id, Member.owner_id).outerjoin(Member, Member.account_id == Account.id)
    person_id, owner_id = session.execute(found.where(Account.email == email)).one_or_none() or (None, None)
    known = email if "@" in email else "nobody"  # a password that was typed into the wrong field stays unwritten
    return add(
        account_id=owner_id or person_id,
        person=known[:255],
        person_id=person_id,
        person_kind="nobody",
        object_type="account",
        object_id=person_id,
        object_name=known[:255],
        changes={"did": "refused"},
        **where,
    )


def sees_full_trail(access):
    """Whether the person sees the account's whole trail. It names resources, so who works on chosen ones does not."""
    return access.has_permission("team.manage") and access.reach == "all"


def listing(
    access=None, *, account_id=None, search=None, action=None, person=None, object_id=None, since=None, until=None
):
    """Newest first. With an access, its account's trail, or where that is not shown as a whole what the person did."""
    query = select(AuditEntry).order_by(AuditEntry.id.desc())
    if access:
        query = query.where(AuditEntry.account_id == access.id)
        if not sees_full_trail(access):
            query = query.where(AuditEntry.person_id == access.person_id)
    if search:
        words = (AuditEntry.person, AuditEntry.object_name, AuditEntry.action, AuditEntry.impersonator)
        found = [column.icontains(search, autoescape=True) for column in words]
        whence = or_(AuditEntry.ip == search, AuditEntry.token_id == search)
        query = query.where(
            or_(
                AuditEntry.object_id == search, and_(whence, not_(AuditEntry.by_platform)) if access else whence, *found
            )
        )
    if person:
        columns = AuditEntry.person, AuditEntry.person_id, AuditEntry.impersonator
        query = query.where(or_(*(column == person for column in columns)))
    for name, wanted in (("account_id", account_id), ("action", action), ("object_id", object_id)):
        if wanted:
            query = query.where(getattr(AuditEntry, name) == wanted)
    if since:
        query = query.where(AuditEntry.created_at >= since)
    return query.where(AuditEntry.created_at <= until) if until else query


def full_rows(query):
    """The same as columns, with the email address of the account in whose trail each stands."""
    return query.outerjoin(Account, Account.id == AuditEntry.account_id).with_only_columns(
        *AuditEntry.__table__.columns, Account.email.label("account_email")
    )


def redacted_rows(query):
    """The same as columns, as customers are told."""
    return query.with_only_columns(
        *(
            case((not_(AuditEntry.by_platform), column)).label(column.name)
            if column.name in REDACTED_COLUMNS
            else column
            for column in AuditEntry.__table__.columns
        )
    )


def get(entry_id, access=None):
    entry = session.scalar(listing(access).where(AuditEntry.id == entry_id))
    if entry is None:
        raise NotFound("There is no such entry in the audit log.")
    return entry


def iter_export(query):
    """Yield the rows of a listing, at most `MAX_EXPORTED_ENTRIES`, read in batches to bound memory."""
    return (
        [format_cell(row, name) for name in EXPORT_COLUMNS] for row in islice(iter_batches(query), MAX_EXPORTED_ENTRIES)
    )


def format_cell(row, name):
    value = getattr(row, name)
    if name in ("changes", "also"):
        return orjson.dumps(value).decode() if value else None
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z") if name == "created_at" else value


def iter_batches(query):
    last = None
    while True:
        older = query.where(AuditEntry.id < last) if last else query
        found = session.execute(older.limit(EXPORT_BATCH_SIZE)).all()
        yield from found
        if len(found) < EXPORT_BATCH_SIZE:
            return
        last = found[-1].id
