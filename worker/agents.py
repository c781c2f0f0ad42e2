"""Guest agents: where they are, what they say of their guests, and what they are asked to do.

Every few seconds each node says in one look which agents are there; what changed is written at once, what did not now
and then. Those that are there are asked for addresses and file systems every few minutes, some at a time.
"""

import ipaddress
import time
from datetime import timedelta

import structlog
from sqlalchemy import or_, select, update

from panel import clock, jobs
from panel.db import session
from panel.models import GuestReport, Hypervisor, Instance
from worker.guests import keys
from worker.hypervisors import node_of, portions
from worker.instances import known
from worker.kinds import task
from worker.nodes.base import Missing, NodeError, Refused

log = structlog.get_logger()

WRITTEN = timedelta(seconds=60)
"""How old what is known of an agent may be before the same is written again."""

OLD = timedelta(minutes=5)
"""How old a guest's report may be."""

AT_ONCE, TIME = 200, 10.0
"""How many guests are asked in one look, and for how many seconds at most."""


def look_everywhere():
    for hypervisor_id in session.scalars(select(Hypervisor.id).where(Hypervisor.status == "up")).all():
        jobs.call("worker.agents.look", hypervisor_id)


def look(hypervisor_id):
    """Notes which guests of the node have their agent, and asks those that were not asked lately."""
    asked = clock.now()
    try:
        present = node_of(hypervisor_id).agents()
        note(hypervisor_id, present, asked)
        ask(hypervisor_id, present)
    except NodeError as error:
        session.rollback()
        log.info("agents_not_seen", node=hypervisor_id, detail=error.detail)  # looking at machines tells people


def running(hypervisor_id, *columns):
    found = select(Instance.id, *columns).select_from(Instance)
    return found.where(Instance.hypervisor_id == hypervisor_id, Instance.power == "on", Instance.deployed)


def note(hypervisor_id, present, asked):
    columns = Instance.power_at, Instance.agent_checked_at, Instance.agent_seen_at
    rows = [row for row in session.execute(running(hypervisor_id, *columns)) if is_news(row, row.id in present, asked)]
    for there in (True, False):
        for some in portions([row.id for row in rows if (row.id in present) is there]):
            seen = {"agent_seen_at": asked} if there else {}
            values = {"agent_checked_at": asked, "updated_at": Instance.updated_at, **seen}
            written = update(Instance).where(Instance.id.in_(some)).values(**values)
            session.execute(written, execution_options={"synchronize_session": False})
            session.commit()


def is_news(row, there, asked):
    looked = row.agent_checked_at
    if looked is None or asked - looked > WRITTEN or (row.power_at and looked < row.power_at):
        return True
    return there != (row.agent_seen_at is not None and row.agent_seen_at >= looked)


def ask(hypervisor_id, present):
    """The guests whose report is the oldest, or from before they were turned on."""
    due = running(hypervisor_id).outerjoin(GuestReport, GuestReport.instance_id == Instance.id)
    stale = or_(GuestReport.at.is_(None), GuestReport.at < clock.now() - OLD, GuestReport.at < Instance.power_at)
    due = session.scalars(due.where(stale).order_by(GuestReport.at.nulls_first(), Instance.id)).all()
    until = time.monotonic() + TIME
    for instance_id in [each for each in due if each in present][:AT_ONCE]:
        if time.monotonic() > until:
            break
        report(hypervisor_id, instance_id)


def report(hypervisor_id, instance_id):
    """Writes down what the guest says. One that does not answer keeps what it said last."""
    node, at = node_of(hypervisor_id), clock.now()
    try:
        addresses = node.agent_addresses(instance_id)
        filesystems = mounted(node, instance_id)
    except NodeError as error:
        return log.info("guest_not_asked", instance=instance_id, detail=error.detail)
    if session.get(Instance, instance_id) is not None:
        rows = [
            {"ip": ip, "family": ipaddress.ip_address(ip).version, "mac": mac.lower()}
            for mac, ips in addresses.items()
            for ip in ips
        ]
        session.merge(GuestReport(instance_id=instance_id, at=at, addresses=rows, filesystems=filesystems))
    session.commit()


def mounted(node, instance_id):
    """Some guests forbid their agent to tell of file systems, or cannot."""
    try:
        found = node.agent_filesystems(instance_id)
    except Missing:
        raise
    except Refused:
        return []
    return [vars(each) for each in sorted(found, key=lambda each: each.mountpoint)]


@task("instance_reset_password", after=("instance_reset_password",))
def reset_password(work):
    instance = known(work)
    work.step("Setting the password", 30)
    work.node.agent_set_password(instance.id, "root", work.task.secret)


@task("instance_ssh_key_inject")
def push_keys(work):
    instance = known(work)
    work.step("Putting the keys into the guest", 30)
    for line in work.task.arguments["ssh_keys"]:
        keys.put(work.node, instance.id, line)
