"""Guest agents: whether they answer, what they report of their guests, and tasks that they carry out.

Every agent is pinged about once a minute, and every few seconds while its instance is open in a browser. A changed
answer is written at once, an unchanged one now and then. Guests whose agent answers are asked for addresses and file
systems every few minutes, a limited number at a time.
"""

import ipaddress
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import Row, Select, case, func, or_, select, update

from panel.core import clock, jobs
from panel.core.db import begin_read_only, session
from panel.core.messages import message
from panel.models import GuestInfo, Hypervisor, Instance
from panel.services import watched_instances
from worker.engine.registry import periodic, task_handler
from worker.engine.runner import TaskContext
from worker.guest import ssh_keys
from worker.nodes.base import AgentUnavailable, NodeDriver, NodeError, NotOnNode, Refused, Unreachable
from worker.sync.node_sync import connect_node, iter_batches
from worker.tasks.instances import get_instance

log = structlog.get_logger()

AGENT_WRITE_INTERVAL = timedelta(seconds=60)
"""Age of a stored answer above which the same answer is written again."""

PING_RETRY_INTERVAL = timedelta(seconds=70)
"""Age of a stored answer above which the agent is pinged again.

With the schedule's intervals and one unanswered ping, an agent that hangs is noticed within two minutes.
"""

AGENT_BOOT_GRACE = timedelta(minutes=5)
"""How long after a machine's start every poll pings its agent, which may start at any moment."""

PING_SHARE, MIN_PINGS_PER_POLL = 4, 200
"""One poll pings a fourth of the node's machines, but at least this many.

So the pings of a large node are spread over a minute.
"""

PING_SECONDS, PING_WATCHED_SECONDS = 10.0, 4.0
"""Seconds in which a poll begins pings. Shorter than the interval between polls, so that polls do not pile up."""

GUEST_REPORT_MAX_AGE = timedelta(minutes=5)
"""Age above which a guest's report is renewed."""

MAX_GUESTS_PER_POLL, GUEST_POLL_SECONDS = 200, 10.0
"""Guests that one poll asks for a report, and the seconds after which it stops."""


@periodic(seconds=15)
def poll_all() -> None:
    for hypervisor_id in session.scalars(select(Hypervisor.id).where(Hypervisor.status == "up")).all():
        jobs.enqueue_call("worker.sync.guest_agents.poll", hypervisor_id)


@periodic(seconds=5, in_scheduler=True)
def poll_all_watched() -> None:
    """Enqueue pings of the agents of all instances that are open in a browser."""
    if watched := watched_instances.list_watched_ids():
        begin_read_only()
        query = select(Instance.hypervisor_id).where(Instance.id.in_(watched), Instance.power == "on")
        for hypervisor_id in session.scalars(query.distinct()).all():
            jobs.enqueue_call("worker.sync.guest_agents.ping_watched", hypervisor_id)
        session.rollback()


def poll(hypervisor_id: str) -> None:
    """Ping the node's agents whose last ping is old, and renew old guest reports."""
    rows = session.execute(select_running(hypervisor_id, *PING_COLUMNS)).all()
    due = [row for row in rows if is_due(row, clock.now())]
    answers = ping(hypervisor_id, due[: max(MIN_PINGS_PER_POLL, len(rows) // PING_SHARE)], PING_SECONDS)
    poll_guests(hypervisor_id, {instance_id for instance_id, answered in answers.items() if answered})


def ping_watched(hypervisor_id: str) -> None:
    """Ping the agents of the node's instances that are open in a browser."""
    watched = select_running(hypervisor_id, *PING_COLUMNS).where(Instance.id.in_(watched_instances.list_watched_ids()))
    ping(hypervisor_id, session.execute(watched).all(), PING_WATCHED_SECONDS)


PING_COLUMNS = Instance.power_reported_at, Instance.agent_checked_at, Instance.agent_seen_at
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def select_running(hypervisor_id: str, *columns: Any) -> Select[Any]:
    """Select the running instances of the node, in the order in which to ping them.

    First come agents that answered their last ping, ordered by its time, so that agents that hang do not delay the
    others.
    """
    query = select(Instance.id, *columns).select_from(Instance)
    query = query.where(Instance.hypervisor_id == hypervisor_id, Instance.power == "on", Instance.deployed)
    is_silent = Instance.agent_seen_at < Instance.agent_checked_at
    return query.order_by(case((is_silent, 1), else_=0), func.coalesce(Instance.agent_checked_at, LONG_AGO))


def is_due(row: Row, now: datetime) -> bool:
    checked_at, on_since = row.agent_checked_at, row.power_reported_at or LONG_AGO
    if checked_at is None or checked_at < on_since or now - checked_at >= PING_RETRY_INTERVAL:
        return True
    return now - on_since < AGENT_BOOT_GRACE and (row.agent_seen_at is None or row.agent_seen_at < on_since)


def ping(hypervisor_id: str, rows: Sequence[Row], seconds: float) -> dict[str, bool]:
    """Ping the agents of these instances and record the answers. Return by id whether each answered."""
    queried_at = clock.now()
    if not rows:
        session.rollback()
        return {}
    try:
        answers = connect_node(hypervisor_id).ping_agents([row.id for row in rows], seconds)
    except NodeError as error:
        session.rollback()
        # Only for information: reconciling records that the node is down.
        log.info("agents_not_pinged", node=hypervisor_id, detail=error.detail)
        return {}
    changed = [row for row in rows if row.id in answers and is_changed(row, answers[row.id], queried_at)]
    for answered in (True, False):
        record_ping([row.id for row in changed if answers[row.id] is answered], answered, queried_at)
    return answers


def record_ping(instance_ids: list[str], answered: bool, queried_at: datetime) -> None:
    """Record whether these agents answered at `queried_at`, unless a later ping is recorded.

    A recorded time in the future is ignored: the clock was set back.
    """
    checked_at = Instance.agent_checked_at
    is_older = or_(checked_at.is_(None), checked_at < queried_at, checked_at > clock.now())
    seen_column = {"agent_seen_at": queried_at} if answered else {}
    values = {"agent_checked_at": queried_at, "updated_at": Instance.updated_at, **seen_column}
    for batch in iter_batches(instance_ids):
        statement = update(Instance).where(Instance.id.in_(batch), is_older).values(**values)
        session.execute(statement, execution_options={"synchronize_session": False})
        session.commit()


def is_changed(row: Row, answered: bool, queried_at: datetime) -> bool:
    checked_at = row.agent_checked_at
    if (
        checked_at is None
        or queried_at - checked_at > AGENT_WRITE_INTERVAL
        or (row.power_reported_at and checked_at < row.power_reported_at)
    ):
        return True
    return answered != (row.agent_seen_at is not None and row.agent_seen_at >= checked_at)


def poll_guests(hypervisor_id: str, answering_ids: set[str]) -> None:
    """Renew the reports of guests: missing ones, old ones, and those from before the machine was turned on."""
    if not answering_ids:
        return
    query = select_running(hypervisor_id).order_by(None).outerjoin(GuestInfo, GuestInfo.instance_id == Instance.id)
    is_stale = or_(
        GuestInfo.at.is_(None),
        GuestInfo.at < clock.now() - GUEST_REPORT_MAX_AGE,
        GuestInfo.at < Instance.power_reported_at,
    )
    due = session.scalars(query.where(is_stale).order_by(GuestInfo.at.nulls_first(), Instance.id)).all()
    until = time.monotonic() + GUEST_POLL_SECONDS
    for instance_id in [guest_id for guest_id in due if guest_id in answering_ids][:MAX_GUESTS_PER_POLL]:
        if time.monotonic() > until:
            break
        poll_report(hypervisor_id, instance_id)


def poll_report(hypervisor_id: str, instance_id: str) -> None:
    """Record what the guest's agent reports. If it does not answer, the last report stays."""
    node, queried_at = connect_node(hypervisor_id), clock.now()
    try:
        addresses = node.agent_addresses(instance_id)
        filesystems = read_filesystems(node, instance_id)
    except NodeError as error:
        log.info("guest_query_failed", instance=instance_id, detail=error.detail)
        if isinstance(error, AgentUnavailable):
            record_ping([instance_id], False, queried_at)
        return session.rollback()
    if session.get(Instance, instance_id) is not None:
        rows = [
            {"ip": ip, "family": ipaddress.ip_address(ip).version, "mac": mac.lower()}
            for mac, ips in addresses.items()
            for ip in ips
        ]
        session.merge(GuestInfo(instance_id=instance_id, at=queried_at, addresses=rows, filesystems=filesystems))
    session.commit()


def read_filesystems(node: NodeDriver, instance_id: str) -> list[dict[str, Any]]:
    """Return the guest's file systems; none when its agent may not or cannot list them."""
    try:
        filesystems = node.agent_filesystems(instance_id)
    except NotOnNode:
        raise
    except Refused:
        return []
    return [vars(filesystem) for filesystem in sorted(filesystems, key=lambda filesystem: filesystem.mountpoint)]


PASSWORD_OUTCOME_UNKNOWN_MESSAGE = message("The outcome is unknown: the old or the new password is valid.")


@task_handler("instance_reset_password", conflicts_with=("instance_reset_password",))
def reset_password(work: TaskContext) -> None:
    """Set the root password. Ping the agent first: one that hangs could set it much later."""
    instance = get_instance(work)
    work.step(message("Asking the guest agent"), 10)
    work.node.agent_ping(instance.id)
    work.step(message("Setting the password"), 30)
    assert work.task.secret, "it is removed when the task ends"
    try:
        work.node.agent_set_password(instance.id, "root", work.task.secret)
    except (AgentUnavailable, Unreachable) as error:
        raise type(error)(PASSWORD_OUTCOME_UNKNOWN_MESSAGE, error.detail) from error


@task_handler("instance_ssh_key_inject")
def push_keys(work: TaskContext) -> None:
    instance = get_instance(work)
    work.step(message("Installing the keys in the guest"), 30)
    for key in work.task.arguments["ssh_keys"]:
        ssh_keys.add_key(work.node, instance.id, key)
