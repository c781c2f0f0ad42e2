"""Spending a session: of all connections that show its secret exactly one gets it."""

import ipaddress
from datetime import timedelta

from sqlalchemy import func, select, update

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Forbidden, TooMany
from panel.models import ConsoleSession, Instance
from panel.services import settings
from panel.services.consoles.read import is_connected
from panel.services.consoles.session_revocation import sessions_to_close
from panel.services.tokens import hash_secret

SESSION_USED_MESSAGE = "This address was used already, or is too old. Open the console again from the panel."


def redeem(kind, secret, address, operator_may):
    """Return the id of the session that this connection gets, and refuse one whose right has ended meanwhile.

    The caller commits before anything else happens, and gives the session back when the connection cannot be carried
    after all. `operator_may` is that of `unwelcome`."""
    now, digest = clock.now(), hash_secret(secret)
    usable = (
        ConsoleSession.kind == kind,
        ConsoleSession.secret_hash == digest,
        ConsoleSession.spent_at.is_(None),
        ConsoleSession.expires_at > now,
    )
    fresh = session.scalar(select(ConsoleSession).where(*usable))
    if fresh is None:
        raise Forbidden(SESSION_USED_MESSAGE)
    if because := sessions_to_close([fresh.id], operator_may).get(fresh.id):
        raise Forbidden(because)
    if refused := redeem_error(fresh, address):
        raise refused
    claim = update(ConsoleSession).where(*usable).values(spent_at=now, seen_at=now, ip=str(address))
    if session.execute(claim, execution_options={"synchronize_session": False}).rowcount != 1:
        raise Forbidden(SESSION_USED_MESSAGE)
    return fresh.id


def release(session_id):
    """The connection was not taken: the session may be used by another one."""
    row = update(ConsoleSession).where(ConsoleSession.id == session_id, ConsoleSession.opened_at.is_(None))
    session.execute(row.values(spent_at=None, seen_at=None, ip=None))


def redeem_error(row, address):
    """What is raised instead of opening a session that could be used, or None."""
    rules = settings.get()
    allowed = rules.vnc_allowed_sources  # decision OP-08
    if allowed and not any(address in ipaddress.ip_network(net) for net in allowed.split(",")):
        return Forbidden("Consoles may not be opened from this address.")
    place = select(Instance.hypervisor_id).where(Instance.id == row.instance_id).scalar_subquery()
    for most, whose, what in (
        (rules.consoles_per_account, ConsoleSession.account_id == row.account_id, "account"),
        (rules.consoles_per_node, Instance.hypervisor_id == place, "hypervisor"),
    ):
        carried = select(func.count()).select_from(ConsoleSession).join(Instance).where(is_connected(), whose)
        if session.scalar(carried) >= most:
            sentence = f"{most} consoles of this {what} are open already. Close one of them."
            return TooMany(sentence, seconds=30, reason="console_limit")
    return None


def describe_session(row):
    """What the console process is told of a session: nothing secret, it looks that up."""
    rules = settings.get()
    return {
        "kind": row.kind,
        "id": row.id,
        "labels": {"instance": row.instance_id, "account": row.account_id},
        "idle": rules.console_idle_minutes * 60,
        "longest": int(timedelta(hours=rules.console_longest_hours).total_seconds()),
    }
