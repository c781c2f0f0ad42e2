"""Docker in guests: installing it, deploying apps, and what is done with them. All of it by the guest's agent.

What takes long runs in the guest by itself, under the name of the task: a worker that takes a task over finds it
running, or done, and only looks.
"""

import json
from contextlib import contextmanager, suppress

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Conflict, NotFound
from panel.models import DockerDeployment
from panel.services import docker_apps
from panel.services.docker_deployments import compose_file, refusals, state_reports
from panel.services.docker_deployments.ports import published, refuse_taken
from panel.services.instances.blockers import RESCUE
from worker.engine.registry import task
from worker.engine.runner import Cancelled
from worker.guest import background_job, docker
from worker.nodes.base import AgentSilent, NodeError, Refused
from worker.sync.docker_polling import (  # noqa: F401  (the schedule and requests ring for them)
    check_support,
    look,
    look_everywhere,
    read_logs,
)
from worker.tasks.instances import known
from worker.tasks.spec_rescue import active

REMOVED = "The app was removed meanwhile."


def inside(work):
    """The instance, whose own system has to run for its guest to be worked in."""
    instance = known(work)
    if active(instance):
        raise Conflict(RESCUE)
    return instance


def there(work):
    """The instance and the app that this task is the latest work on."""
    row = state_reports.held_by(work.task)
    if row is None:
        session.rollback()
        raise NotFound(REMOVED)
    return inside(work), row


def not_installed(row, error):
    state_reports.not_installed(row, error)


def not_deployed(row, error):
    if deployment := state_reports.held_by(row):
        state_reports.failed(deployment, error)


def not_removed(row, error):
    state_reports.not_removed(row)


@contextmanager
def in_the_guest(work, instance_id):
    """Around what runs in the guest by itself: when the task is cancelled it is stopped there, too."""
    try:
        yield
    except Cancelled:
        with suppress(NodeError):
            background_job.stop(work.node, instance_id, work.task.id)
        raise


@task("docker_install", ended_badly=not_installed, after=refusals.KINDS)
def install(work):
    instance = inside(work)
    work.step("Installing Docker", 10)
    with in_the_guest(work, instance.id):
        docker.install(work.node, instance.id, work.task.id, work.check)
    state_reports.installed(work.task)


@task("docker_deploy", ended_badly=not_deployed, after=refusals.KINDS)
def deploy(work):
    instance, row = there(work)
    row.status = "deploying"
    environment = json.loads(row.environment)
    work.step(f"Preparing {row.app_name:.100}", 5)
    compose = composed(work, row.id, environment)
    work.step("Fetching the images and starting the containers", 20)
    with in_the_guest(work, instance.id):
        docker.up(work.node, instance.id, work.task.id, row.project_name, compose, environment, work.check)
    work.step("Looking at the containers", 90)
    found = docker.Condition("running", "")
    with suppress(AgentSilent, Refused):  # they were started: somebody looks at them again soon
        found = docker.status(work.node, instance.id, row.project_name)
    instance, row = there(work)
    row.compose = None
    state_reports.state(row, found.status, found.sentence)


def composed(work, deployment_id, environment):
    """The compose file, with the ports that were asked for. One that was fetched already by a worker that died is not
    fetched again: what runs in the guest since then was made from it."""
    row = session.get(DockerDeployment, deployment_id)
    if row.compose:
        return row.compose
    if row.compose_url:
        url, mappings = row.compose_url, row.port_mappings
        session.commit()
        work.step("Fetching the compose file", 10)
        compose = docker_apps.remapped(compose_file.fetched(url), mappings)
    else:
        compose, _ = docker_apps.compose(docker_apps.get(row.app_slug), environment, row.port_mappings)
    instance, row = there(work)
    ports = published(compose)
    refuse_taken(instance, ports, but=row.id)
    row.compose, row.ports = compose, ports
    session.commit()
    return compose


WORDS = {"start": "Starting {}", "stop": "Stopping {}", "restart": "Restarting {}"}


@task("docker_control", after=refusals.KINDS)
def control(work):
    instance, row = there(work)
    action, project = work.task.arguments["action"], row.project_name
    work.step(WORDS[action].format(f"{row.app_name:.100}"), 20)
    try:
        docker.control(work.node, instance.id, project, action, name=work.task.id, check=work.check)
        found = docker.status(work.node, instance.id, project)
    except Refused as refused:
        state_reports.state(there(work)[1], "error", str(refused))
        session.commit()
        raise
    state_reports.state(there(work)[1], found.status, found.sentence)


@task("docker_probe", after=refusals.KINDS)
def probe(work):
    instance = inside(work)
    row = session.scalar(select(DockerDeployment).filter_by(id=work.task.arguments["deployment_id"]))
    if row is None:
        raise NotFound(REMOVED)
    work.step(f"Looking at {row.app_name:.100}", 20)
    found = docker.status(work.node, instance.id, row.project_name)
    if row := state_reports.held(row.id):
        state_reports.state(row, found.status, found.sentence)


@task("docker_remove", ended_badly=not_removed, after=refusals.KINDS)
def remove(work):
    instance = inside(work)
    work.step("Removing the containers", 20)
    docker.remove(work.node, instance.id, work.task.arguments["project_name"], name=work.task.id, check=work.check)
