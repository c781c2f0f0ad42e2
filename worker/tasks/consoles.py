"""Work for consoles: the VNC password on the node, and the SSH key in the guest."""

import secrets
from datetime import timedelta

import structlog
from sqlalchemy import or_, select, update

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import get_message, message
from panel.models import ConsoleSession
from panel.services import consoles
from panel.services.instances import state_reports
from worker.engine.registry import periodic, task_handler
from worker.guest import ssh_keys
from worker.nodes.base import AgentUnavailable, NodeError, NotOnNode, Refused
from worker.sync.node_sync import connect_node
from worker.tasks.instances import get_instance

log = structlog.get_logger()

CONNECT_GRACE = timedelta(seconds=15)
"""How long after a session was redeemed its connection may still not have reached the node."""

KEY_REMOVAL_MAX_AGE = timedelta(days=2)
"""Age after which the panel stops trying to remove a key from a guest that does not answer."""


def open_vnc(session_id):
    """Set a password on the node's VNC server and record where it listens. May be called again for the same session."""
    row = session.get(ConsoleSession, session_id)
    if row is None:
        return
    # Locked, so that two workers use the same password for one machine.
    [instance] = state_reports.lock_instances(row.instance_id)
    session.refresh(row)
    if row.port or row.error:
        return session.rollback()
    password = row.node_password = row.node_password or find_pending_password(row) or secrets.token_urlsafe(6)[:8]
    instance_id, statement = instance.id, update(ConsoleSession).where(ConsoleSession.id == session_id)
    session.commit()
    try:
        endpoint = connect_node(instance.hypervisor_id).console(instance_id, password)
    except NodeError as error:
        log.warning("vnc_connection_failed", instance=instance_id, detail=error.detail)
        session.execute(statement.where(ConsoleSession.port.is_(None)).values(error=get_message(error)))
    else:
        session.execute(statement.values(host=endpoint.host, port=endpoint.port, ssh_jump=endpoint.via, error=None))
    session.commit()


def find_pending_password(row):
    """Return the password that another session of the machine has yet to use: a VNC server has only one."""
    now = clock.now()
    others = select(ConsoleSession.node_password).where(
        ConsoleSession.instance_id == row.instance_id,
        ConsoleSession.kind == "screen",
        ConsoleSession.id != row.id,
        ConsoleSession.node_password.is_not(None),
        ConsoleSession.error.is_(None),
        ConsoleSession.opened_at.is_(None),
        ConsoleSession.ended_at.is_(None),
        or_(
            ConsoleSession.redeemed_at.is_(None) & (ConsoleSession.expires_at > now),
            ConsoleSession.redeemed_at > now - CONNECT_GRACE,
        ),
    )
    return session.scalar(others.order_by(ConsoleSession.id.desc()).limit(1))


def on_ssh_session_failed(row, error):
    """Close the console session, which has no key in the guest."""
    if console_session := session.get(ConsoleSession, row.arguments["console_session_id"]):
        consoles.close(console_session, error)
        console_session.private_key = None


@task_handler("instance_ssh_session", on_failure=on_ssh_session_failed)
def prepare_shell(work):
    """Put the session's public key into the guest."""
    instance = get_instance(work)
    row = session.get(ConsoleSession, work.task.arguments["console_session_id"])
    if row is None:
        raise NotFound(message("The session was closed in the meantime."))
    public_key = row.public_key
    work.step(message("Installing a key in the guest"), 20)
    row.key_put_at = clock.now()  # before it is there, so that it is removed even if this worker is lost
    session.commit()
    try:
        ssh_keys.add_key(work.node, instance.id, public_key)
    except (AgentUnavailable, Refused) as error:
        row.error = get_message(error)  # only the guest's errors; that the node did not answer is the task's error
        session.commit()
        raise


def remove_key(session_id):
    """Remove the session's key from the guest. If the guest does not answer, the next sweep tries again."""
    row = session.get(ConsoleSession, session_id)
    if row is None or row.key_put_at is None or row.key_removed_at:
        return
    instance, public_key = row.instance, row.public_key
    if instance.power != "on" and clock.now() - row.key_put_at < KEY_REMOVAL_MAX_AGE:
        return session.rollback()
    try:
        if instance.power == "on":
            ssh_keys.remove_key(connect_node(instance.hypervisor_id), instance.id, public_key)
    except NotOnNode:
        log.info("ssh_key_gone_with_machine", instance=instance.id)
    except NodeError as error:
        log.info("ssh_key_removal_failed", instance=instance.id, detail=error.detail)
        if clock.now() - row.key_put_at < KEY_REMOVAL_MAX_AGE:
            return session.rollback()
    row.key_removed_at = clock.now()
    session.commit()


@periodic(seconds=60)
def sweep_sessions():
    """End sessions whose process was lost, and remove the keys of shells that ended or were never opened."""
    consoles.sweep_lost()
    session.commit()
    for session_id in consoles.list_stale_keys():
        remove_key(session_id)
