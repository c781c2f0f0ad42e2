"""Recording messages: once for each cause, for everybody who may see what they are about.

The number of queries does not depend on the number of reports, but for mails.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import delete, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from panel.core import clock, live_changes, mail
from panel.core.db import generate_id, session
from panel.models import Account, InboxCause, InboxMessage, Instance, Member, ResourceGrant, Role, Volume
from panel.ratelimit import windows
from panel.services.inbox.kinds import KINDS
from panel.services.inbox.preferences import get_default, map_choices

MAX_MESSAGES = 500
"""Messages of one person. The oldest ones are deleted."""
MAX_MAILS_PER_HOUR = 20
"""Mails about messages to one person, so that a fault of many resources does not fill a mailbox."""
SECONDS_PER_HOUR = 3600

INSERT_BY_DIALECT: dict[str, Callable[..., sqlite.Insert | postgresql.Insert]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}


class Report(NamedTuple):
    """Something that happened."""

    kind: str
    key: str
    """Names the cause. Another report with the same key is ignored."""
    account_id: str
    """The owner of the resource, or the person that a personal report is about."""
    text: str
    severity: str = "info"
    path: str | None = None
    """The page to open."""
    resource_type: str | None = None
    resource_id: str | None = None
    is_personal: bool = False
    has_own_mail: bool = False
    """A mail about it is sent anyway."""


def record(reports: Iterable[Report]) -> int:
    """Record messages for reports whose cause is new. Return the number of those reports."""
    new_reports = claim_causes({report.key: report for report in reports})
    if not new_reports:
        return 0
    recipients = list(find_recipients(new_reports))
    person_ids = {person_id for _, person_id in recipients}
    choices = map_choices(person_ids)
    rows, mailed = [], []
    for report, person_id in recipients:
        default = get_default(report.kind, is_owner=person_id == report.account_id)
        in_inbox, by_mail = choices.get((person_id, report.kind)) or default
        if by_mail and not report.has_own_mail:
            mailed.append((report, person_id))
        if in_inbox or KINDS[report.kind].is_fixed:
            rows.append(make_row(report, person_id))
    send_mails(mailed)
    if rows:
        session.execute(insert(InboxMessage), rows)
        for person_id in {row["account_id"] for row in rows}:
            note_changed_inbox(person_id)
        delete_surplus(person_ids)
    return len(new_reports)


def note_changed_inbox(person_id: str) -> None:
    """Tell the person's open pages after the commit. The change names no message, because not all may be visible."""
    live_changes.note_change(live_changes.Change(person_id, InboxMessage.__tablename__), session)


def claim_causes(reports: dict[str, Report]) -> list[Report]:
    """Return the reports whose cause was not recorded before. The keys are sorted, so that concurrent transactions wait
    for each other in the same order."""
    if not reports:
        return []
    now = clock.now()
    statement = INSERT_BY_DIALECT[session.get_bind().dialect.name](InboxCause)
    statement = statement.values([{"key": key, "created_at": now} for key in sorted(reports)])
    new_keys = session.scalars(statement.on_conflict_do_nothing().returning(InboxCause.key)).all()
    return [reports[key] for key in sorted(new_keys)]


def make_row(report: Report, person_id: str) -> dict[str, Any]:
    return {
        "id": generate_id(),
        "account_id": person_id,
        "owner_id": None if report.is_personal else report.account_id,
        "kind": report.kind,
        "severity": report.severity,
        "text": report.text,
        "path": report.path,
        "resource_type": report.resource_type,
        "resource_id": report.resource_id,
        "created_at": clock.now(),
    }


def find_recipients(reports: Sequence[Report]) -> Iterator[tuple[Report, str]]:
    """Yield each report with every person that it concerns: the owner, and members who may see the resource."""
    shared = [report for report in reports if not report.is_personal and KINDS[report.kind].permission]
    members = list_members({report.account_id for report in shared})
    restricted = [member.id for team in members.values() for member in team if member.reach != "all"]
    grants = list_grants(restricted) if restricted else set()
    project_ids = map_projects(shared) if restricted else {}
    for report in reports:
        yield report, report.account_id
        if report.is_personal:
            continue
        for member in members.get(report.account_id, ()):
            targets = {report.resource_id, project_ids.get(report.resource_id)} - {None}
            is_reached = member.reach == "all" or not report.resource_id
            if KINDS[report.kind].permission in member.permissions and (
                is_reached or any((member.id, target) in grants for target in targets)
            ):
                yield report, member.account_id


def list_members(owner_ids: Collection[str]) -> dict[str, list[Any]]:
    """Return the active members by the owner of their team."""
    members = defaultdict(list)
    if owner_ids:
        columns = Member.id, Member.owner_id, Member.account_id, Member.reach, Role.permissions
        query = select(*columns).join(Role, Role.id == Member.role_id)
        for row in session.execute(query.where(Member.owner_id.in_(owner_ids), Member.account_id.is_not(None))):
            members[row.owner_id].append(row)
    return members


def map_projects(reports: Sequence[Report]) -> dict[str | None, str | None]:
    """Return the project of each resource that is in one."""
    ids = {report.resource_id for report in reports if report.resource_id}
    instances = select(Instance.id, Instance.project_id).where(Instance.id.in_(ids))
    volumes = select(Volume.id, Volume.project_id).where(Volume.id.in_(ids))
    return {row.id: row.project_id for row in session.execute(instances.union_all(volumes))}


def list_grants(member_ids: Collection[str]) -> set[tuple[str, str]]:
    """Return (member, resource or project) of what was granted to the members."""
    query = select(ResourceGrant.member_id, ResourceGrant.resource_id).where(ResourceGrant.member_id.in_(member_ids))
    return {(row.member_id, row.resource_id) for row in session.execute(query)}


def delete_surplus(person_ids: Collection[str]) -> None:
    """Delete the oldest messages of people who have too many."""
    query = select(InboxMessage.account_id).where(InboxMessage.account_id.in_(person_ids))
    query = query.group_by(InboxMessage.account_id).having(func.count() > MAX_MESSAGES)
    for person_id in session.scalars(query).all():
        own = select(InboxMessage.id).where(InboxMessage.account_id == person_id)
        newest = own.order_by(InboxMessage.id.desc()).limit(MAX_MESSAGES)
        surplus = delete(InboxMessage).where(InboxMessage.account_id == person_id, InboxMessage.id.not_in(newest))
        session.execute(surplus.execution_options(synchronize_session=False))


def send_mails(mailed: Sequence[tuple[Report, str]]) -> None:
    """Send mails, to each person not more than allowed."""
    if not mailed:
        return
    person_ids = {person_id for _, person_id in mailed}
    emails = dict(session.execute(select(Account.id, Account.email).where(Account.id.in_(person_ids))).all())
    for report, person_id in mailed:
        window = windows.count_use("inbox mails", person_id, MAX_MAILS_PER_HOUR, SECONDS_PER_HOUR)
        if person_id in emails and window.allowed:
            send_mail(emails[person_id], report)


def send_mail(email: str, report: Report) -> None:
    mail.send(
        email,
        "inbox",
        title=KINDS[report.kind].label,
        text=report.text,
        link=report.path or "/notifications",
        preferences_link="/notifications/preferences",
    )
