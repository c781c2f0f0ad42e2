"""Docker in guests: installing it, deploying apps, and what is done with them. All of it by the guest's agent.

What takes long runs in the guest by itself, under the name of the task: a worker that takes a task over finds it
running, or done, and only looks.
"""

import json
from contextlib import contextmanager, suppress

from sqlalchemy import select

from panel.db import session
from panel.errors import Conflict, NotFound
from panel.models import DockerDeployment
from panel.services import docker_apps
from panel.services.docker_deployments import allowed, compose_file, seen
from panel.services.docker_deployments.ports import published, refuse_taken
from panel.services.instances.ties import RESCUE
from worker.docker_looks import (  # noqa: F401  (the schedule and requests ring for them)
    check_support,
    look,
    look_everywhere,
    read_logs,
)
from worker.guests import detached, docker
from worker.instances import known
from worker.kinds import task
from worker.nodes.base import AgentSilent, NodeError, Refused
from worker.rescued import active
from worker.task import Cancelled

REMOVED = "The app was removed meanwhile."


def inside(work):
    """The instance, whose own system has to run for its guest to be worked in."""
    instance = known(work)
    if active(instance):
        raise Conflict(RESCUE)
    return instance


def there(work):
    """The instance and the app that this task is the latest work on."""
    row = seen.held_by(work.task)
    if row is None:
        session.rollback()
        raise NotFound(REMOVED)
    return inside(work), row


def not_installed(row, error):
    seen.not_installed(row, error)


def not_deployed(row, error):
    if deployment := seen.held_by(row):
        seen.failed(deployment, error)


def not_removed(row, error):
    seen.not_removed(row)


@contextmanager
def in_the_guest(work, instance_id):
    """Around what runs in the guest by itself: when the task is cancelled it is stopped there, too."""
    try:
        yield
    except Cancelled:
        with suppress(NodeError):
            detached.stop(work.node, instance_id, work.task.id)
        raise


@task("docker_install", ended_badly=not_installed, after=allowed.KINDS)
def install(work):
    instance = inside(work)
    work.step("Installing Docker", 10)
    with in_the_guest(work, instance.id):
        docker.install(work.node, instance.id, work.task.id, work.check)
    seen.installed(work.task)


@task("docker_deploy", ended_badly=not_deployed, after=allowed.KINDS)
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
    seen.state(row, found.status, found.sentence)


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


@task("docker_control", after=allowed.KINDS)
def control(work):
    instance, row = there(work)
    action, project = work.task.arguments["action"], row.project_name
    work.step(WORDS[action].format(f"{row.app_name:.100}"), 20)
    try:
        docker.control(work.node, instance.id, project, action, name=work.task.id, check=work.check)
        found = docker.status(work.node, instance.id, project)
    except Refused as refused:
        seen.state(there(work)[1], "error", str(refused))
        session.commit()
        raise
    seen.state(there(work)[1], found.status, found.sentence)


@task("docker_probe", after=allowed.KINDS)
def probe(work):
    instance = inside(work)
    row = session.scalar(select(DockerDeployment).filter_by(id=work.task.arguments["deployment_id"]))
    if row is None:
        raise NotFound(REMOVED)
    work.step(f"Looking at {row.app_name:.100}", 20)
    found = docker.status(work.node, instance.id, row.project_name)
    if row := seen.held(row.id):
        seen.state(row, found.status, found.sentence)


@task("docker_remove", ended_badly=not_removed, after=allowed.KINDS)
def remove(work):
    instance = inside(work)
    work.step("Removing the containers", 20)
    docker.remove(work.node, instance.id, work.task.arguments["project_name"], name=work.task.id, check=work.check)
