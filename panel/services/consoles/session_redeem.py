"""Redeeming a session: of all connections with its secret exactly one gets it."""

import ipaddress
from collections.abc import Callable
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from sqlalchemy import func, select, update

from panel.core import clock
from panel.core.db import count_changed, session
from panel.core.errors import Forbidden, Problem, TooMany
from panel.core.messages import message
from panel.models import ConsoleSession, Instance
from panel.services import settings
from panel.services.consoles.read import is_connected
from panel.services.consoles.session_revocation import find_sessions_to_close
from panel.services.tokens import hash_secret

SESSION_USED_MESSAGE = message("This address was already used or has expired. Open the console again from the panel.")


def redeem(
    kind: str, secret: str, address: IPv4Address | IPv6Address, operator_may: Callable[[str | None], bool]
) -> str:
    """Return the id of the session that this connection gets. Raise when it is used, expired or no longer permitted.

    The caller commits before anything else happens, and calls `release` when the connection fails after all.
    `operator_may` is that of `find_sessions_to_close`.
    """
    now, digest = clock.now(), hash_secret(secret)
    usable = (
        ConsoleSession.kind == kind,
        ConsoleSession.secret_hash == digest,
        ConsoleSession.redeemed_at.is_(None),
        ConsoleSession.expires_at > now,
    )
    row = session.scalar(select(ConsoleSession).where(*usable))
    if row is None:
        raise Forbidden(SESSION_USED_MESSAGE)
    if close_reason := find_sessions_to_close([row.id], operator_may).get(row.id):
        raise Forbidden(close_reason)
    if error := redeem_error(row, address):
        raise error
    claim = update(ConsoleSession).where(*usable).values(redeemed_at=now, seen_at=now, ip=str(address))
    if count_changed(claim, synchronize_session=False) != 1:
        raise Forbidden(SESSION_USED_MESSAGE)
    return row.id


def release(session_id: str) -> None:
    """Make a session that was not opened usable by another connection."""
    query = update(ConsoleSession).where(ConsoleSession.id == session_id, ConsoleSession.opened_at.is_(None))
    session.execute(query.values(redeemed_at=None, seen_at=None, ip=None))


def redeem_error(row: ConsoleSession, address: IPv4Address | IPv6Address) -> Problem | None:
    """Return the exception to raise instead of opening a usable session, or None."""
    config = settings.get()
    allowed = config.vnc_allowed_sources  # decision OP-08
    if allowed and not any(address in ipaddress.ip_network(net) for net in allowed.split(",")):
        return Forbidden(message("Consoles may not be opened from this address."))
    hypervisor_id = select(Instance.hypervisor_id).where(Instance.id == row.instance_id).scalar_subquery()
    for maximum, same_scope, scope in (
        (config.consoles_per_account, ConsoleSession.account_id == row.account_id, "account"),
        (config.consoles_per_node, Instance.hypervisor_id == hypervisor_id, "hypervisor"),
    ):
        query = select(func.count()).select_from(ConsoleSession).join(Instance).where(is_connected(), same_scope)
        if session.scalars(query).one() >= maximum:
            sentence = message(
                "{maximum} consoles of this {scope} are open already. Close one of them.", maximum=maximum, scope=scope
            )
            return TooMany(sentence, seconds=30, reason="console_limit")
    return None


def describe_session(row: ConsoleSession) -> dict[str, Any]:
    """Return what the console server needs of a session: no secrets, which it fetches with `find_target`."""
    config = settings.get()
    return {
        "kind": row.kind,
        "id": row.id,
        "labels": {"instance": row.instance_id, "account": row.account_id},
        "idle_timeout_seconds": config.console_idle_minutes * 60,
        "max_duration_seconds": int(timedelta(hours=config.console_longest_hours).total_seconds()),
    }
