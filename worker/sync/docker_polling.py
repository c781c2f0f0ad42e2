"""Polling Docker in guests: the state of engines and apps every few minutes, and logs on request."""

import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import Select, exists, func, or_, select

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.messages import get_message
from panel.models import DockerDeployment, DockerEngine, Hypervisor, Instance, Rescue, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services.docker_deployments import actions, refusals, state_reports
from worker.engine.registry import periodic
from worker.guest import docker, docker_detect
from worker.nodes.base import NodeDriver, NodeError, Refused
from worker.sync.node_sync import connect_node

log = structlog.get_logger()

APP_STATE_MAX_AGE = timedelta(minutes=3)
"""Age of a stored state above which an engine or app is polled again."""

MAX_GUESTS_PER_POLL, DOCKER_POLL_SECONDS = 100, 20.0
"""Guests of a node that one poll asks, and the seconds after which it stops."""

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

AGENT_SEEN_MAX_AGE = timedelta(minutes=3)
"""How long ago a guest's agent may have answered last."""

DOCKER_START_GRACE = timedelta(minutes=2)
"""How long a machine has to be on before it is polled: Docker starts after the agent, and then its containers."""

POLLED_STATUSES = ("running", "stopped", "error")


@periodic(seconds=60)
def poll_all() -> None:
    has_engine = exists().where(Instance.hypervisor_id == Hypervisor.id, DockerEngine.instance_id == Instance.id)
    for hypervisor_id in session.scalars(select(Hypervisor.id).where(Hypervisor.status == "up", has_engine)).all():
        jobs.enqueue_call("worker.tasks.docker_deployments.poll", hypervisor_id)


def select_reachable(hypervisor_id: str, *columns: Any) -> Select[Any]:
    """Select guests that run their own system, whose agent answers, and on whose Docker no task works."""
    query = select(*columns).join(Instance).where(Instance.hypervisor_id == hypervisor_id, Instance.power == "on")
    query = query.where(Instance.deployed, Instance.suspended_reason.is_(None), ~Instance.migrating)
    agent_conditions = (
        Instance.agent_seen_at > clock.now() - AGENT_SEEN_MAX_AGE,
        Instance.agent_seen_at >= Instance.power_reported_at,
    )
    in_rescue = exists().where(Rescue.instance_id == Instance.id)
    has_task = exists().where(
        Task.resource_id == Instance.id, Task.status.in_(OPEN_STATUSES), Task.kind.in_(refusals.DOCKER_TASK_KINDS)
    )
    return query.where(*agent_conditions, ~in_rescue, ~has_task)


def poll(hypervisor_id: str) -> None:
    """Poll the node's engines and apps with an old state, and request removals that could not be done before."""
    until = time.monotonic() + DOCKER_POLL_SECONDS
    oldest_allowed = clock.now() - APP_STATE_MAX_AGE
    reconcile_leftovers(hypervisor_id)
    is_warm = Instance.power_reported_at < clock.now() - DOCKER_START_GRACE
    query = select_reachable(hypervisor_id, DockerEngine.instance_id).where(
        is_warm,
        DockerEngine.installed_at.is_not(None),
        or_(DockerEngine.checked_at.is_(None), DockerEngine.checked_at < oldest_allowed),
    )
    due = session.scalars(query.order_by(DockerEngine.checked_at.nulls_first()).limit(MAX_GUESTS_PER_POLL)).all()
    call_guests(hypervisor_id, due, poll_engine, until)
    query = select_reachable(hypervisor_id, DockerDeployment.instance_id).join(
        DockerEngine, DockerEngine.instance_id == DockerDeployment.instance_id
    )
    is_stale = or_(DockerDeployment.checked_at.is_(None), DockerDeployment.checked_at < oldest_allowed)
    query = query.where(
        is_warm, DockerEngine.installed_at.is_not(None), DockerDeployment.status.in_(POLLED_STATUSES), is_stale
    )
    oldest = func.min(func.coalesce(DockerDeployment.checked_at, LONG_AGO))
    query = query.group_by(DockerDeployment.instance_id).order_by(oldest).limit(MAX_GUESTS_PER_POLL)
    call_guests(hypervisor_id, session.scalars(query).all(), poll_apps, until)


def call_guests(hypervisor_id: str, due: Sequence[str], call: Callable[[NodeDriver, str], None], until: float) -> None:
    """Call `call(node, instance_id)` for each guest, until `until`.

    The order is random, so that a guest that hangs cannot always delay the same others.
    """
    session.commit()
    for instance_id in random.sample(due, len(due)):
        if time.monotonic() > until:
            break
        try:
            call(connect_node(hypervisor_id), instance_id)
        except NodeError as error:
            log.info("docker_poll_failed", instance=instance_id, detail=error.detail)
        session.rollback()


def poll_engine(node: NodeDriver, instance_id: str) -> None:
    queried_at = clock.now()
    is_installed = docker_detect.is_installed(node, instance_id)
    engine = state_reports.lock_engine(instance_id)
    if engine and (engine.checked_at is None or engine.checked_at < queried_at):
        engine.checked_at = queried_at
        if not is_installed:
            state_reports.record_engine_gone(instance_id)
        session.commit()


def check_support(instance_id: str) -> None:
    """Record whether Docker can be installed in the guest. Called for a request that waits for the answer."""
    hypervisor_id = session.scalar(select(Instance.hypervisor_id).where(Instance.id == instance_id))
    session.commit()
    try:
        supported = docker_detect.is_supported(connect_node(hypervisor_id), instance_id)
    except NodeError as error:
        session.rollback()
        return log.info("docker_detection_failed", instance=instance_id, detail=error.detail)
    state_reports.record_support(instance_id, supported)
    session.commit()


def poll_apps(node: NodeDriver, instance_id: str) -> None:
    """Record the states of a guest's apps. An app that somebody changed since the start of the poll is left alone."""
    query = select(DockerDeployment).where(DockerDeployment.instance_id == instance_id)
    rows = session.scalars(
        query.where(DockerDeployment.status.in_(POLLED_STATUSES)).execution_options(populate_existing=True)
    )
    previous = {row.id: (row.project_name, get_state_key(row)) for row in rows}
    session.commit()
    try:
        statuses = docker.get_statuses(node, instance_id, [project for project, _ in previous.values()])
    except Refused as refused:
        statuses = {project: docker.AppStatus("error", get_message(refused)) for project, _ in previous.values()}
    for deployment_id, (project, previous_state) in previous.items():
        row = state_reports.lock_deployment(deployment_id)
        if row and get_state_key(row) == previous_state:
            state_reports.record_state(row, statuses[project].status, statuses[project].sentence)
    session.commit()


def get_state_key(row: DockerDeployment) -> tuple[str, str | None, datetime | None]:
    return row.status, row.task_id, row.checked_at


def reconcile_leftovers(hypervisor_id: str) -> None:
    """Request the removals that could not be done because the guest was not reachable."""
    query = select_reachable(hypervisor_id, DockerEngine.instance_id).where(DockerEngine.installed_at.is_not(None))
    for instance_id in session.scalars(query.where(DockerEngine.has_leftover).limit(MAX_GUESTS_PER_POLL)).all():
        actions.reconcile(session.get_one(Instance, instance_id))
    session.commit()


def read_logs(deployment_id: str) -> None:
    """Record the app's logs, or why they cannot be read. Called for a request that waits for the answer."""
    row = session.get(DockerDeployment, deployment_id, populate_existing=True)
    if row is None:
        return
    instance_id, project, hypervisor_id = row.instance_id, row.project_name, row.instance.hypervisor_id
    session.commit()
    text = problem = None
    try:
        text = docker.read_logs(connect_node(hypervisor_id), instance_id, project)
    except NodeError as error:
        log.info("docker_logs_unavailable", deployment=deployment_id, detail=error.detail)
        problem = get_message(error)
    if row := state_reports.lock_deployment(deployment_id):
        state_reports.record_logs(row, text, problem)
    session.commit()
