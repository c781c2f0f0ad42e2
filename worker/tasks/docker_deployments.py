"""Docker in guests: installing it, deploying and controlling apps. Everything goes through the guest agent.

Long commands run in the guest as background jobs, named after the task. A worker that takes a task over finds the job
running or done, and only waits for it.
"""

import json
from contextlib import contextmanager, suppress

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import get_message, message
from panel.models import DockerDeployment
from panel.services import docker_apps
from panel.services.docker_deployments import compose_file, refusals, state_reports
from panel.services.docker_deployments.ports import ensure_ports_free, list_published_ports
from panel.services.state_machine import make_problem
from worker.engine.registry import task_handler
from worker.engine.runner import Cancelled
from worker.guest import background_job, docker
from worker.nodes.base import AgentUnavailable, NodeError, Refused
from worker.sync.docker_polling import (  # noqa: F401  (called by these names in queue messages)
    check_support,
    poll,
    poll_all,
    read_logs,
)
from worker.tasks.instances import get_instance
from worker.tasks.spec_rescue import is_in_rescue

APP_REMOVED_MESSAGE = message("The app was deleted in the meantime.")


def get_instance_outside_rescue(work):
    """Return the instance. Raise Conflict in rescue, because its own system does not run then."""
    instance = get_instance(work)
    if is_in_rescue(instance):
        raise make_problem("rescue_active")
    return instance


def get_instance_and_deployment(work):
    """Return the instance and the app, if this task is the app's latest. Raise NotFound otherwise."""
    row = state_reports.lock_deployment_of(work.task)
    if row is None:
        session.rollback()
        raise NotFound(APP_REMOVED_MESSAGE)
    return get_instance_outside_rescue(work), row


def on_install_failed(row, error):
    state_reports.record_install_failure(row, error)


def on_deploy_failed(row, error):
    if deployment := state_reports.lock_deployment_of(row):
        state_reports.record_failure(deployment, error)


def on_remove_failed(row, error):
    state_reports.remember_not_removed(row)


@contextmanager
def stop_job_on_cancel(work, instance_id):
    """Stop the task's background job in the guest when the task is cancelled."""
    try:
        yield
    except Cancelled:
        with suppress(NodeError):
            background_job.stop(work.node, instance_id, work.task.id)
        raise


@task_handler("docker_install", on_failure=on_install_failed, conflicts_with=refusals.DOCKER_TASK_KINDS)
def install(work):
    instance = get_instance_outside_rescue(work)
    work.step(message("Installing Docker"), 10)
    with stop_job_on_cancel(work, instance.id):
        docker.install(work.node, instance.id, work.task.id, work.check)
    state_reports.record_installed(work.task)


@task_handler("docker_deploy", on_failure=on_deploy_failed, conflicts_with=refusals.DOCKER_TASK_KINDS)
def deploy(work):
    instance, row = get_instance_and_deployment(work)
    row.status = "deploying"
    environment = json.loads(row.environment)
    work.step(message("Preparing {app}", app=row.app_name), 5)
    compose = prepare_compose(work, row.id, environment)
    work.step(message("Fetching the images and starting the containers"), 20)
    with stop_job_on_cancel(work, instance.id):
        docker.deploy_app(work.node, instance.id, work.task.id, row.project_name, compose, environment, work.check)
    work.step(message("Checking the containers"), 90)
    state = docker.AppStatus("running", "")
    with suppress(AgentUnavailable, Refused):  # they were started: the next poll comes soon
        state = docker.get_status(work.node, instance.id, row.project_name)
    instance, row = get_instance_and_deployment(work)
    row.compose = None
    state_reports.record_state(row, state.status, state.sentence)


def prepare_compose(work, deployment_id, environment):
    """Return the compose file, with the requested ports.

    A file that an earlier attempt fetched is not fetched again, because the guest may already run it.
    """
    row = session.get(DockerDeployment, deployment_id)
    if row is None:
        raise NotFound(APP_REMOVED_MESSAGE)
    if row.compose:
        return row.compose
    if row.compose_url:
        url, mappings = row.compose_url, row.port_mappings
        session.commit()
        work.step(message("Fetching the compose file"), 10)
        compose = docker_apps.remap_ports(compose_file.fetch_text(url), mappings)
    else:
        compose, _ = docker_apps.render_compose_file(docker_apps.get(row.app_slug), environment, row.port_mappings)
    instance, row = get_instance_and_deployment(work)
    ports = list_published_ports(compose)
    ensure_ports_free(instance, ports, exclude_id=row.id)
    row.compose, row.ports = compose, ports
    session.commit()
    return compose


CONTROL_STAGES = {
    "start": message("Starting {app}"),
    "stop": message("Stopping {app}"),
    "restart": message("Restarting {app}"),
}


@task_handler("docker_control", conflicts_with=refusals.DOCKER_TASK_KINDS)
def control(work):
    instance, row = get_instance_and_deployment(work)
    action, project = work.task.arguments["action"], row.project_name
    work.step(CONTROL_STAGES[action].format(app=row.app_name), 20)
    try:
        docker.control_app(work.node, instance.id, project, action, name=work.task.id, check=work.check)
        state = docker.get_status(work.node, instance.id, project)
    except Refused as refused:
        state_reports.record_state(get_instance_and_deployment(work)[1], "error", get_message(refused))
        session.commit()
        raise
    state_reports.record_state(get_instance_and_deployment(work)[1], state.status, state.sentence)


@task_handler("docker_probe", conflicts_with=refusals.DOCKER_TASK_KINDS)
def probe(work):
    instance = get_instance_outside_rescue(work)
    row = session.scalar(select(DockerDeployment).filter_by(id=work.task.arguments["deployment_id"]))
    if row is None:
        raise NotFound(APP_REMOVED_MESSAGE)
    work.step(message("Checking {app}", app=row.app_name), 20)
    state = docker.get_status(work.node, instance.id, row.project_name)
    if row := state_reports.lock_deployment(row.id):
        state_reports.record_state(row, state.status, state.sentence)


@task_handler("docker_remove", on_failure=on_remove_failed, conflicts_with=refusals.DOCKER_TASK_KINDS)
def remove(work):
    instance = get_instance_outside_rescue(work)
    work.step(message("Removing the containers"), 20)
    docker.remove_app(work.node, instance.id, work.task.arguments["project_name"], name=work.task.id, check=work.check)
