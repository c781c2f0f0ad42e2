"""Which consoles must be closed or must not open, because the permission for them has ended.

The console server checks all its sessions every few seconds, in batches with a constant number of queries. The same
check runs when a session is redeemed. So code that ends a permission need not handle consoles.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlalchemy import Row, Select, and_, exists, func, select
from sqlalchemy.orm import joinedload, load_only

from panel.core import clock
from panel.core.db import session
from panel.core.messages import message
from panel.models import Account, ConsoleSession, Instance, LoginSession, Task, Token
from panel.models.tasks import OPEN_STATUSES, REBUILD_TASK_KINDS
from panel.services.access import ACCESS_COLUMNS, Access, join_membership

CONSOLE_PERMISSION = "instances.console"

MACHINE_DESTROYED_MESSAGE = message("The instance was destroyed.")
MACHINE_REBUILT_MESSAGE = message("The machine is being destroyed or reinstalled.")
MACHINE_SUSPENDED_MESSAGE = message("The instance was suspended.")
MACHINE_STOPPED_MESSAGE = message("The instance was powered off.")
VNC_DISABLED_MESSAGE = message("The console of this instance was turned off.")
SIGNED_OUT_MESSAGE = message("You signed out.")
TOKEN_REVOKED_MESSAGE = message("The token that opened this console is no longer valid.")
NOT_PERMITTED_MESSAGE = message("You may no longer open consoles of this instance.")

rebuilt_condition = exists().where(
    Task.resource_id == ConsoleSession.instance_id,
    Task.lock.in_(("exclusive", "final")),
    Task.status.in_(OPEN_STATUSES),
    Task.kind.in_(REBUILD_TASK_KINDS),
    Task.created_at > func.coalesce(ConsoleSession.redeemed_at, ConsoleSession.created_at),
)


LOAD_OPTIONS = (
    load_only(ConsoleSession.kind, ConsoleSession.opened_by, ConsoleSession.close_reason, ConsoleSession.instance_id),
    joinedload(ConsoleSession.instance).load_only(Instance.suspended_reason, Instance.power, Instance.enable_vnc),
)
"""Only the columns that the check reads: the others include secrets, which would be decrypted each time."""


def find_sessions_to_close(session_ids: Sequence[str], operator_may: Callable[[str | None], bool]) -> dict[str, str]:
    """Return those of the sessions that must be closed or refused now: id → message for the person.
    `operator_may(role)` tells whether an operator with that role may open consoles."""
    query = select(ConsoleSession, rebuilt_condition).where(ConsoleSession.id.in_(session_ids))
    query = query.options(*LOAD_OPTIONS).execution_options(populate_existing=True)
    rows = {row.id: (row, is_rebuilt) for row, is_rebuilt in session.execute(query)}
    right_error = make_right_check([row for row, _ in rows.values()], operator_may)
    messages = {}
    for session_id in session_ids:
        row, is_rebuilt = rows.get(session_id, (None, False))
        if (
            message := MACHINE_DESTROYED_MESSAGE
            if row is None
            else row.close_reason or machine_error(row, is_rebuilt) or right_error(row)
        ):
            messages[session_id] = message
    return messages


def machine_error(row: ConsoleSession, is_rebuilt: bool) -> str | None:
    """Return why the machine's state ends the console, or None."""
    instance = row.instance
    if is_rebuilt:
        return MACHINE_REBUILT_MESSAGE
    if instance.suspended_reason and not row.by_operator:
        return MACHINE_SUSPENDED_MESSAGE
    if row.kind == "shell" and instance.power != "on":
        return MACHINE_STOPPED_MESSAGE
    return VNC_DISABLED_MESSAGE if row.kind == "screen" and not instance.enable_vnc else None


def make_right_check(
    rows: Sequence[ConsoleSession], operator_may: Callable[[str | None], bool]
) -> Callable[[ConsoleSession], str | None]:
    """Return a function that returns why the person or token may no longer have the console, or None."""
    live_sessions = get_live_session_ids(collect_ids(rows, "sign_in_id"))
    usable_tokens = get_usable_token_ids(collect_ids(rows, "token_id"))
    persons = {row.person_id: row for row in session.execute(select_persons(collect_ids(rows, "person_id")))}
    reachable = get_reachable_pairs(rows, persons)

    def find_access_error(row: ConsoleSession) -> str | None:
        opened_by = row.opened_by
        if opened_by.get("sign_in_id") and opened_by["sign_in_id"] not in live_sessions:
            return SIGNED_OUT_MESSAGE
        if opened_by.get("token_id") and opened_by["token_id"] not in usable_tokens:
            return TOKEN_REVOKED_MESSAGE
        if opened_by["person_kind"] == "operator":
            person = persons.get(opened_by["person_id"])
            return (
                None
                if person and not person.suspended_at and operator_may(person.operator_role)
                else NOT_PERMITTED_MESSAGE
            )
        if opened_by["person_kind"] in ("owner", "member"):
            return None if (opened_by["person_id"], row.instance_id) in reachable else NOT_PERMITTED_MESSAGE
        return None

    return find_access_error


def collect_ids(rows: Iterable[ConsoleSession], name: str) -> set[str]:
    return {row.opened_by[name] for row in rows if row.opened_by.get(name)}


def get_live_session_ids(ids: Iterable[str]) -> set[str]:
    return set(
        session.scalars(select(LoginSession.id).where(LoginSession.id.in_(ids), LoginSession.expires_at > clock.now()))
    )


def get_usable_token_ids(ids: Iterable[str]) -> set[str]:
    return {token.id for token in session.scalars(select(Token).where(Token.id.in_(ids))) if token.is_usable}


def select_persons(ids: Iterable[str]) -> Select:
    return join_membership(select(*ACCESS_COLUMNS, Account.operator_role)).where(Account.id.in_(ids))


def get_reachable_pairs(rows: Iterable[ConsoleSession], persons: Mapping[str, Row]) -> set[tuple[str, str]]:
    """Return the pairs of person and instance for which the person still has the permission."""
    ids_by_person: dict[str, set[str]] = {}
    for row in rows:
        if row.opened_by["person_kind"] in ("owner", "member"):
            ids_by_person.setdefault(row.opened_by["person_id"], set()).add(row.instance_id)
    pairs = set()
    for person_id, instance_ids in ids_by_person.items():
        access = persons.get(person_id) and Access.from_row(persons[person_id])
        if access and not access.suspended and access.has_permission(CONSOLE_PERMISSION):
            visible = select(Instance.id).where(and_(Instance.id.in_(instance_ids), access.visible_rows(Instance)))
            pairs |= {(person_id, instance_id) for instance_id in session.scalars(visible)}
    return pairs
