"""Console sessions as the console server sees them: the machine's side, start, end, host keys."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import and_, delete, or_, select, update

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.core.errors import Conflict, Unavailable
from panel.core.messages import message
from panel.models import ConsoleSession, Instance
from panel.services import audit
from panel.services.consoles.read import CONSOLE_LOST_AFTER

SESSION_RETENTION = timedelta(days=30)
"""How long rows of sessions are stored. The audit log keeps its entries longer."""

STALE_KEYS_BATCH_SIZE = 200

PROCESS_LOST_MESSAGE = message("The console process ended unexpectedly.")


def find_target(session_id: str) -> dict[str, Any] | None:
    """Return the host, port and credentials of the machine's side, or None while a worker prepares it. Raise
    `Unavailable` when that failed."""
    row = session.get(ConsoleSession, session_id, populate_existing=True)
    if row is None or row.error:
        raise Unavailable((row and row.error) or message("The instance was destroyed."))
    if row.kind == "shell":
        credentials = {"user": row.user, "private_key": row.private_key, "host_key": row.instance.ssh_host_key}
        return {"host": row.host, "port": row.port, **credentials}
    if row.port is None:
        return None
    return {
        "host": row.host,
        "port": row.port,
        "ssh_jump": row.ssh_jump,
        "password": row.password,
        "node_password": row.node_password,
    }


def record_opened(session_id: str, host_key: str | None = None) -> None:
    """Record that the console is connected to the machine. The first host key of an instance is stored as the known
    one."""
    row = session.get(ConsoleSession, session_id)
    if row is None:
        return
    row.opened_at = row.seen_at = clock.now()
    if host_key and row.instance.ssh_host_key is None:
        row.instance.ssh_host_key = host_key
    add_audit_entry(row, "opened")


def record_ended(
    session_id: str, *, reason: str, message: str, bytes_in: int = 0, bytes_out: int = 0, host_key: str | None = None
) -> None:
    row = session.get(ConsoleSession, session_id)
    if row is None or row.ended_at:
        return
    row.ended_at, row.ended_reason, row.ended_message = clock.now(), reason, message
    row.bytes_in, row.bytes_out, row.private_key = bytes_in, bytes_out, None
    if reason == "host_key_changed" and host_key:
        row.instance.presented_host_key = host_key
    seconds = round((row.ended_at - (row.opened_at or row.redeemed_at or row.ended_at)).total_seconds())
    add_audit_entry(row, "closed", seconds=seconds, reason=reason, bytes_in=bytes_in, bytes_out=bytes_out)
    if row.kind == "shell":
        on_commit(lambda: jobs.enqueue_call("worker.tasks.consoles.remove_key", row.id))


def add_audit_entry(row: ConsoleSession, operation: str, **facts: Any) -> None:
    """Add an audit entry in the name of the person who created the session."""
    opened_by = {name: value for name, value in row.opened_by.items() if name != "sign_in_id"}
    audit.add(
        **opened_by | {"account_id": row.account_id},
        ip=row.ip or "",
        action=f"console.{operation}",
        object_type="instance",
        object_id=row.instance_id,
        object_name=row.instance.display_name,
        changes={"did": operation, "kind": row.kind, **facts},
    )


def record_alive(session_ids: Iterable[str]) -> None:
    """Record that the console server still has these sessions."""
    query = update(ConsoleSession).where(ConsoleSession.id.in_(session_ids))
    session.execute(query.values(seen_at=clock.now()), execution_options={"synchronize_session": False})


def sweep_lost() -> None:
    """End the sessions of a console server that died."""
    query = select(ConsoleSession.id).where(ConsoleSession.redeemed_at.is_not(None), ConsoleSession.ended_at.is_(None))
    for session_id in session.scalars(query.where(ConsoleSession.seen_at < clock.now() - CONSOLE_LOST_AFTER)).all():
        record_ended(session_id, reason="lost", message=PROCESS_LOST_MESSAGE)


def list_stale_keys() -> Sequence[str]:
    """Return the sessions that have ended or expired and whose key is still in the guest."""
    row = ConsoleSession
    is_over = or_(row.ended_at.is_not(None), and_(row.redeemed_at.is_(None), row.expires_at < clock.now()))
    query = select(row.id).where(row.key_put_at.is_not(None), row.key_removed_at.is_(None), is_over)
    return session.scalars(query.order_by(row.id).limit(STALE_KEYS_BATCH_SIZE)).all()


def purge_expired() -> None:
    is_expired = ConsoleSession.created_at < clock.now() - SESSION_RETENTION
    session.execute(delete(ConsoleSession).where(is_expired), execution_options={"synchronize_session": False})


def describe_host_keys(instance: Instance) -> dict[str, str | None]:
    """Return the fingerprints of the known host key and of a different one that the instance presented; None where
    there is none."""
    return {
        "known": format_fingerprint(instance.ssh_host_key),
        "shown": format_fingerprint(instance.presented_host_key),
    }


def format_fingerprint(host_key: str | None) -> str | None:
    """Return the fingerprint in the format of `ssh-keygen -l`."""
    if not host_key:
        return None
    digest = hashlib.sha256(base64.b64decode(host_key.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def accept_host_key(instance: Instance, fingerprint_shown: str) -> None:
    """Accept the host key that the instance presented last, if it has this fingerprint."""
    if not instance.presented_host_key or format_fingerprint(instance.presented_host_key) != fingerprint_shown:
        raise Conflict(message("The instance presented another key in the meantime. Check its fingerprint again."))
    instance.ssh_host_key, instance.presented_host_key = instance.presented_host_key, None
    session.flush()
