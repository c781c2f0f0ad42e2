"""Guest agents: whether they answer, what they say of their guests, and what they are asked to do.

Every agent is pinged about once a minute, that of an instance which somebody looks at every few seconds. What changed
is written at once, what did not now and then. Those that answer are asked for addresses and file systems every few
minutes, some at a time.
"""

import ipaddress
import time
from datetime import UTC, datetime, timedelta

import structlog
from sqlalchemy import case, func, or_, select, update

from panel.core import clock, jobs
from panel.core.db import begin_read_only, session
from panel.models import GuestInfo, Hypervisor, Instance
from panel.services import watched_instances
from worker.engine.registry import task_handler
from worker.guest import ssh_keys
from worker.nodes.base import AgentSilent, Missing, NodeError, Refused, Unreachable
from worker.sync.node_sync import connect_node, iter_batches
from worker.tasks.instances import get_instance

log = structlog.get_logger()

AGENT_WRITE_INTERVAL = timedelta(seconds=60)
"""How old what is known of an agent may be before the same is written again."""

PING_AGAIN_AFTER = timedelta(seconds=70)
"""How old what is known of an agent may be before it is pinged again. With the schedule's steps, and one ping that is
not answered, an agent that hangs is noticed within two minutes."""

AGENT_BOOT_GRACE = timedelta(minutes=5)
"""How long after its start a machine's agent is looked for at every look: it may come at any moment."""

PING_SHARE, MIN_PINGS_PER_POLL = 4, 200
"""A look pings a fourth of the node's machines, or this many: so the pings of a large node are spread over a minute."""

PING_SECONDS, PING_WATCHED_SECONDS = 10.0, 4.0
"""How long a look begins further pings: shorter than the time until the next look, so that looks do not pile up."""

GUEST_REPORT_MAX_AGE = timedelta(minutes=5)
"""How old a guest's report may be."""

MAX_GUESTS_PER_POLL, GUEST_POLL_SECONDS = 200, 10.0
"""How many guests are asked in one look, and for how many seconds at most."""


def poll_all():
    for hypervisor_id in session.scalars(select(Hypervisor.id).where(Hypervisor.status == "up")).all():
        jobs.enqueue_call("worker.sync.guest_agents.poll", hypervisor_id)


def poll_all_watched():
    """Has the agents pinged of the instances that somebody looks at."""
    if watched := watched_instances.list_watched_ids():
        begin_read_only()
        found = select(Instance.hypervisor_id).where(Instance.id.in_(watched), Instance.power == "on")
        for hypervisor_id in session.scalars(found.distinct()).all():
            jobs.enqueue_call("worker.sync.guest_agents.ping_watched", hypervisor_id)
        session.rollback()


def poll(hypervisor_id):
    """Pings the agents of the node that were not pinged lately, and asks guests that were not asked lately."""
    rows = session.execute(select_running(hypervisor_id, *PING_COLUMNS)).all()
    due = [row for row in rows if is_due(row, clock.now())]
    answers = ping(hypervisor_id, due[: max(MIN_PINGS_PER_POLL, len(rows) // PING_SHARE)], PING_SECONDS)
    poll_guests(hypervisor_id, {instance_id for instance_id, answered in answers.items() if answered})


def ping_watched(hypervisor_id):
    """Pings the agents of the node's instances that somebody looks at."""
    watched = select_running(hypervisor_id, *PING_COLUMNS).where(Instance.id.in_(watched_instances.list_watched_ids()))
    ping(hypervisor_id, session.execute(watched).all(), PING_WATCHED_SECONDS)


PING_COLUMNS = Instance.power_at, Instance.agent_checked_at, Instance.agent_seen_at
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def select_running(hypervisor_id, *columns):
    """The running instances of the node, those first whose agent answered and was pinged the longest ago: agents that
    hang take their time, and keep no others waiting."""
    found = select(Instance.id, *columns).select_from(Instance)
    found = found.where(Instance.hypervisor_id == hypervisor_id, Instance.power == "on", Instance.deployed)
    is_silent = Instance.agent_seen_at < Instance.agent_checked_at
    return found.order_by(case((is_silent, 1), else_=0), func.coalesce(Instance.agent_checked_at, LONG_AGO))


def is_due(row, now):
    looked, on_since = row.agent_checked_at, row.power_at or LONG_AGO
    if looked is None or looked < on_since or now - looked >= PING_AGAIN_AFTER:
        return True
    return now - on_since < AGENT_BOOT_GRACE and (row.agent_seen_at is None or row.agent_seen_at < on_since)


def ping(hypervisor_id, rows, seconds):
    """Pings the agents of these instances and notes which of them answer. Returns that by id."""
    asked = clock.now()
    if not rows:
        session.rollback()
        return {}
    try:
        answers = connect_node(hypervisor_id).ping_agents([row.id for row in rows], seconds)
    except NodeError as error:
        session.rollback()
        log.info("agents_not_pinged", node=hypervisor_id, detail=error.detail)  # looking at machines tells people
        return {}
    news = [row for row in rows if row.id in answers and is_news(row, answers[row.id], asked)]
    for answered in (True, False):
        record_ping([row.id for row in news if answers[row.id] is answered], answered, asked)
    return answers


def record_ping(instance_ids, answered, asked):
    """Writes down whether these agents answered when they were asked, unless somebody asked later. (A time in the
    future is from a clock set back.)"""
    looked = Instance.agent_checked_at
    earlier = or_(looked.is_(None), looked < asked, looked > clock.now())
    seen = {"agent_seen_at": asked} if answered else {}
    values = {"agent_checked_at": asked, "updated_at": Instance.updated_at, **seen}
    for some in iter_batches(instance_ids):
        written = update(Instance).where(Instance.id.in_(some), earlier).values(**values)
        session.execute(written, execution_options={"synchronize_session": False})
        session.commit()


def is_news(row, answered, asked):
    looked = row.agent_checked_at
    if looked is None or asked - looked > AGENT_WRITE_INTERVAL or (row.power_at and looked < row.power_at):
        return True
    return answered != (row.agent_seen_at is not None and row.agent_seen_at >= looked)


def poll_guests(hypervisor_id, present):
    """The guests whose report is the oldest, or from before they were turned on."""
    if not present:
        return
    due = select_running(hypervisor_id).order_by(None).outerjoin(GuestInfo, GuestInfo.instance_id == Instance.id)
    stale = or_(
        GuestInfo.at.is_(None), GuestInfo.at < clock.now() - GUEST_REPORT_MAX_AGE, GuestInfo.at < Instance.power_at
    )
    due = session.scalars(due.where(stale).order_by(GuestInfo.at.nulls_first(), Instance.id)).all()
    until = time.monotonic() + GUEST_POLL_SECONDS
    for instance_id in [each for each in due if each in present][:MAX_GUESTS_PER_POLL]:
        if time.monotonic() > until:
            break
        poll_report(hypervisor_id, instance_id)


def poll_report(hypervisor_id, instance_id):
    """Writes down what the guest says. One that does not answer keeps what it said last."""
    node, at = connect_node(hypervisor_id), clock.now()
    try:
        addresses = node.agent_addresses(instance_id)
        filesystems = read_filesystems(node, instance_id)
    except NodeError as error:
        log.info("guest_not_asked", instance=instance_id, detail=error.detail)
        if isinstance(error, AgentSilent):
            record_ping([instance_id], False, at)
        return session.rollback()
    if session.get(Instance, instance_id) is not None:
        rows = [
            {"ip": ip, "family": ipaddress.ip_address(ip).version, "mac": mac.lower()}
            for mac, ips in addresses.items()
            for ip in ips
        ]
        session.merge(GuestInfo(instance_id=instance_id, at=at, addresses=rows, filesystems=filesystems))
    session.commit()


def read_filesystems(node, instance_id):
    """Some guests forbid their agent to tell of file systems, or cannot."""
    try:
        found = node.agent_filesystems(instance_id)
    except Missing:
        raise
    except Refused:
        return []
    return [vars(each) for each in sorted(found, key=lambda each: each.mountpoint)]


PASSWORD_OUTCOME_UNKNOWN_MESSAGE = "The outcome is unknown: the old or the new password is valid."


@task_handler("instance_reset_password", conflicts_with=("instance_reset_password",))
def reset_password(work):
    """Nothing is sent to an agent that does not answer a ping: it could set the password whenever it goes on."""
    instance = get_instance(work)
    work.step("Asking the guest agent", 10)
    work.node.agent_ping(instance.id)
    work.step("Setting the password", 30)
    try:
        work.node.agent_set_password(instance.id, "root", work.task.secret)
    except (AgentSilent, Unreachable) as error:
        raise type(error)(PASSWORD_OUTCOME_UNKNOWN_MESSAGE, error.detail) from error


@task_handler("instance_ssh_key_inject")
def push_keys(work):
    instance = get_instance(work)
    work.step("Putting the keys into the guest", 30)
    for line in work.task.arguments["ssh_keys"]:
        ssh_keys.put(work.node, instance.id, line)
