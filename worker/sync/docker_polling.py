"""Looking at Docker in guests: every few minutes how apps do, and at any time what they wrote."""

import random
import time
from datetime import UTC, datetime, timedelta

import structlog
from sqlalchemy import exists, func, or_, select

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import DockerDeployment, DockerEngine, Hypervisor, Instance, Rescue, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services.docker_deployments import actions, refusals, state_reports
from worker.guest import docker, docker_detect
from worker.nodes.base import NodeError, Refused
from worker.sync.node_sync import connect_node

log = structlog.get_logger()

APP_STATE_MAX_AGE = timedelta(minutes=3)
"""How old what is known of an app may be."""

MAX_GUESTS_PER_POLL, DOCKER_POLL_SECONDS = 100, 20.0
"""How many guests of a node are looked into in one go, and for how many seconds at most."""

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

AGENT_SEEN_MAX_AGE = timedelta(minutes=3)
"""How long ago a guest's agent may have been seen there."""

DOCKER_START_GRACE = timedelta(minutes=2)
"""How long a machine has to be on: Docker starts after the agent, and then its containers."""

POLLED_STATUSES = ("running", "stopped", "error")


def poll_all():
    there = exists().where(Instance.hypervisor_id == Hypervisor.id, DockerEngine.instance_id == Instance.id)
    for hypervisor_id in session.scalars(select(Hypervisor.id).where(Hypervisor.status == "up", there)).all():
        jobs.enqueue_call("worker.tasks.docker_deployments.poll", hypervisor_id)


def select_reachable(hypervisor_id, *columns):
    """Of guests whose own system runs with its agent there, and in which nobody works on Docker at the moment."""
    found = select(*columns).join(Instance).where(Instance.hypervisor_id == hypervisor_id, Instance.power == "on")
    found = found.where(Instance.deployed, Instance.suspended_reason.is_(None), ~Instance.migrating)
    there = Instance.agent_seen_at > clock.now() - AGENT_SEEN_MAX_AGE, Instance.agent_seen_at >= Instance.power_at
    rescued = exists().where(Rescue.instance_id == Instance.id)
    worked_in = exists().where(
        Task.resource_id == Instance.id, Task.status.in_(OPEN_STATUSES), Task.kind.in_(refusals.DOCKER_TASK_KINDS)
    )
    return found.where(*there, ~rescued, ~worked_in)


def poll(hypervisor_id):
    """Looks at the engines and apps of the node that nobody looked at lately, and has removed what could not be."""
    until = time.monotonic() + DOCKER_POLL_SECONDS
    old = clock.now() - APP_STATE_MAX_AGE
    reconcile_leftovers(hypervisor_id)
    warm = Instance.power_at < clock.now() - DOCKER_START_GRACE
    due = select_reachable(hypervisor_id, DockerEngine.instance_id).where(
        warm,
        DockerEngine.installed_at.is_not(None),
        or_(DockerEngine.checked_at.is_(None), DockerEngine.checked_at < old),
    )
    due = session.scalars(due.order_by(DockerEngine.checked_at.nulls_first()).limit(MAX_GUESTS_PER_POLL)).all()
    poll_each(hypervisor_id, due, poll_engine, until)
    due = select_reachable(hypervisor_id, DockerDeployment.instance_id).join(
        DockerEngine, DockerEngine.instance_id == DockerDeployment.instance_id
    )
    stale = or_(DockerDeployment.checked_at.is_(None), DockerDeployment.checked_at < old)
    due = due.where(warm, DockerEngine.installed_at.is_not(None), DockerDeployment.status.in_(POLLED_STATUSES), stale)
    oldest = func.min(func.coalesce(DockerDeployment.checked_at, LONG_AGO))
    due = due.group_by(DockerDeployment.instance_id).order_by(oldest).limit(MAX_GUESTS_PER_POLL)
    poll_each(hypervisor_id, session.scalars(due).all(), poll_apps, until)


def poll_each(hypervisor_id, due, call, until):
    """In any order, so that a guest that hangs does not keep the others from their turn for ever."""
    session.commit()
    for each in random.sample(due, len(due)):
        if time.monotonic() > until:
            break
        try:
            call(connect_node(hypervisor_id), each)
        except NodeError as error:
            log.info("docker_not_seen", of=each, detail=error.detail)
        session.rollback()


def poll_engine(node, instance_id):
    asked = clock.now()
    there = docker_detect.is_installed(node, instance_id)
    found = state_reports.lock_engine(instance_id)
    if found and (found.checked_at is None or found.checked_at < asked):
        found.checked_at = asked
        if not there:
            state_reports.record_engine_gone(instance_id)
        session.commit()


def check_support(instance_id):
    """What a request rings for that waits: whether Docker can be installed in the guest."""
    hypervisor_id = session.scalar(select(Instance.hypervisor_id).where(Instance.id == instance_id))
    session.commit()
    try:
        supported = docker_detect.is_supported(connect_node(hypervisor_id), instance_id)
    except NodeError as error:
        session.rollback()
        return log.info("docker_support_not_seen", instance=instance_id, detail=error.detail)
    state_reports.record_support(instance_id, supported)
    session.commit()


def poll_apps(node, instance_id):
    """What somebody did with an app meanwhile counts for more."""
    mine = select(DockerDeployment).where(DockerDeployment.instance_id == instance_id)
    rows = session.scalars(
        mine.where(DockerDeployment.status.in_(POLLED_STATUSES)).execution_options(populate_existing=True)
    )
    before = {row.id: (row.project_name, state_key(row)) for row in rows}
    session.commit()
    try:
        found = docker.statuses(node, instance_id, [project for project, _ in before.values()])
    except Refused as refused:
        found = {project: docker.AppStatus("error", str(refused)) for project, _ in before.values()}
    for deployment_id, (project, known) in before.items():
        row = state_reports.lock_deployment(deployment_id)
        if row and state_key(row) == known:
            state_reports.record_state(row, found[project].status, found[project].sentence)
    session.commit()


def state_key(row):
    return row.status, row.task_id, row.checked_at


def reconcile_leftovers(hypervisor_id):
    """Asks for the removals that found nobody in the guest."""
    found = select_reachable(hypervisor_id, DockerEngine.instance_id).where(DockerEngine.installed_at.is_not(None))
    for instance_id in session.scalars(found.where(DockerEngine.has_leftover).limit(MAX_GUESTS_PER_POLL)).all():
        actions.reconcile(session.get(Instance, instance_id))
    session.commit()


def read_logs(deployment_id):
    """What a request rings for that waits for the logs."""
    row = session.get(DockerDeployment, deployment_id, populate_existing=True)
    if row is None:
        return
    instance_id, project, hypervisor_id = row.instance_id, row.project_name, row.instance.hypervisor_id
    session.commit()
    text = problem = None
    try:
        text = docker.logs(connect_node(hypervisor_id), instance_id, project)
    except NodeError as error:
        log.info("docker_logs_not_read", deployment=deployment_id, detail=error.detail)
        problem = str(error)
    if row := state_reports.lock_deployment(deployment_id):
        state_reports.record_logs(row, text, problem)
    session.commit()
