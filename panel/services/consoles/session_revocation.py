"""Which consoles must be closed or must not open, because what allowed them is no longer so.

The console process asks this every few seconds for all that it carries, for some at a time, each time in the same few
queries; the same is asked when a session is spent. So nothing that ends a right has to think of consoles.
"""

from sqlalchemy import and_, exists, func, select
from sqlalchemy.orm import joinedload, load_only

from panel.core import clock
from panel.core.db import session
from panel.models import Account, ConsoleSession, Instance, SignIn, Task, Token
from panel.models.tasks import OPEN, REBUILDS
from panel.services.access import COLUMNS, Access, joined

PERMISSION = "instances.console"

DESTROYED = "The machine was destroyed."
REBUILT = "The machine is being destroyed or installed anew."
SUSPENDED = "The machine was suspended."
STOPPED = "The machine was turned off."
SCREEN_OFF = "The screen of the machine was turned off."
SIGNED_OUT = "You signed out."
REVOKED = "The token that opened this console is no longer valid."
NOT_PERMITTED = "You may no longer open consoles of this machine."

rebuilt = exists().where(
    Task.resource_id == ConsoleSession.instance_id,
    Task.lock.in_(("exclusive", "final")),
    Task.status.in_(OPEN),
    Task.kind.in_(REBUILDS),
    Task.created_at > func.coalesce(ConsoleSession.spent_at, ConsoleSession.created_at),
)


SEEN = (
    load_only(ConsoleSession.kind, ConsoleSession.who, ConsoleSession.close_because, ConsoleSession.instance_id),
    joinedload(ConsoleSession.instance).load_only(Instance.suspended_reason, Instance.power, Instance.enable_vnc),
)
"""What is looked at. The rest, and the secrets among it, would be decrypted each time."""


def unwelcome(session_ids, operator_may):
    """Of these consoles those to be closed or refused now: id → the sentence for the person. `operator_may(role)` says
    whether an operator with that role may open consoles."""
    found = select(ConsoleSession, rebuilt).where(ConsoleSession.id.in_(session_ids))
    found = found.options(*SEEN).execution_options(populate_existing=True)
    rows = {row.id: (row, anew) for row, anew in session.execute(found)}
    held = rights([row for row, _ in rows.values()], operator_may)
    told = {}
    for session_id in session_ids:
        row, anew = rows.get(session_id, (None, False))
        if because := DESTROYED if row is None else row.close_because or of_machine(row, anew) or held(row):
            told[session_id] = because
    return told


def of_machine(row, anew):
    """Why the machine's state ends the console, or None."""
    instance = row.instance
    if anew:
        return REBUILT
    if instance.suspended_reason and not row.by_operator:
        return SUSPENDED
    if row.kind == "shell" and instance.power != "on":
        return STOPPED
    return SCREEN_OFF if row.kind == "screen" and not instance.enable_vnc else None


def rights(rows, operator_may):
    """A function that says why the person or program may no longer have the console, or None."""
    here = signed_in(named(rows, "sign_in_id"))
    valid = usable(named(rows, "token_id"))
    people = {row.person_id: row for row in session.execute(persons(named(rows, "person_id")))}
    reachable = reach(rows, people)

    def why(row):
        who = row.who
        if who.get("sign_in_id") and who["sign_in_id"] not in here:
            return SIGNED_OUT
        if who.get("token_id") and who["token_id"] not in valid:
            return REVOKED
        if who["person_kind"] == "operator":
            person = people.get(who["person_id"])
            return None if person and not person.suspended_at and operator_may(person.operator_role) else NOT_PERMITTED
        if who["person_kind"] in ("owner", "member"):
            return None if (who["person_id"], row.instance_id) in reachable else NOT_PERMITTED
        return None

    return why


def named(rows, name):
    return {row.who[name] for row in rows if row.who.get(name)}


def signed_in(ids):
    return set(session.scalars(select(SignIn.id).where(SignIn.id.in_(ids), SignIn.expires_at > clock.now())))


def usable(ids):
    return {token.id for token in session.scalars(select(Token).where(Token.id.in_(ids))) if token.usable}


def persons(ids):
    return joined(select(*COLUMNS, Account.operator_role)).where(Account.id.in_(ids))


def reach(rows, people):
    """The pairs of person and instance that still go together."""
    wanted = {}
    for row in rows:
        if row.who["person_kind"] in ("owner", "member"):
            wanted.setdefault(row.who["person_id"], set()).add(row.instance_id)
    pairs = set()
    for person_id, instance_ids in wanted.items():
        access = people.get(person_id) and Access.of(people[person_id])
        if access and not access.suspended and access.holds(PERMISSION):
            mine = select(Instance.id).where(and_(Instance.id.in_(instance_ids), access.owns(Instance)))
            pairs |= {(person_id, instance_id) for instance_id in session.scalars(mine)}
    return pairs
