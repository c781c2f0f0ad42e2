"""Deploying apps: from the catalog, or from a customer's compose file."""

import json
import secrets

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import DockerDeployment
from panel.models.docker_deployments import CUSTOM_APP_SLUG
from panel.services import docker_apps
from panel.services.docker_deployments import refusals
from panel.services.docker_deployments.ports import ensure_ports_free, list_published_ports
from panel.services.media import remote_file


def deploy_app(instance, *, app_slug, actor, env_variables=None, port_mappings=None, by_operator=False):
    """Deploy an app of the catalog. Return its row, its task, and the generated secrets by name, which are shown only
    now."""
    app = get_app(app_slug)
    refusals.lock_instance(instance)
    refusals.ensure_not_refused(refusals.deploy_error(instance, by_operator=by_operator))
    variables, mappings = env_variables or {}, port_mappings or []
    compose, environment = docker_apps.compose(app, variables, mappings)
    ports = list_published_ports(compose)
    ensure_ports_free(instance, ports)
    deployment = create_deployment(instance, app_slug, app.name, environment, mappings)
    deployment.ports = ports
    generated = {variable.name for variable in app.variables if variable.generate and not variables.get(variable.name)}
    generated_secrets = {name: value for name, value in environment.items() if name in generated}
    return deployment, start_deploy(deployment, actor), generated_secrets


def get_app(slug):
    try:
        return docker_apps.get(slug)
    except NotFound:
        raise Invalid(
            message("The catalog has no such app."), app_slug=message("The catalog has no such app.")
        ) from None


def deploy_compose(
    instance, *, app_name, compose_url, actor, env_variables=None, port_mappings=None, by_operator=False
):
    """Deploy a compose file, which workers fetch. Return the row and its task."""
    remote_file.ensure_allowed_url(compose_url, "compose_url")
    refusals.lock_instance(instance)
    refusals.ensure_not_refused(refusals.deploy_error(instance, by_operator=by_operator))
    deployment = create_deployment(instance, CUSTOM_APP_SLUG, app_name, env_variables or {}, port_mappings or [])
    deployment.compose_url = compose_url
    return deployment, start_deploy(deployment, actor)


def create_deployment(instance, slug, name, environment, mappings):
    deployment = DockerDeployment(
        instance=instance,
        app_slug=slug,
        app_name=name,
        project_name=f"{slug}-{secrets.token_hex(4)}",
        environment=json.dumps(environment),
        port_mappings=mappings,
    )
    session.add(deployment)
    session.flush()
    return deployment


def retry(row, *, actor, by_operator=False):
    """Deploy the app again: after a failure, because its containers have errors, or because its compose file changed.
    Return the task."""
    refusals.lock_instance(row.instance)
    refusals.ensure_not_refused(refusals.engine_error(row.instance, by_operator=by_operator))
    ensure_ports_free(row.instance, row.ports, exclude_id=row.id)
    return start_deploy(row, actor)


def start_deploy(row, actor):
    task = enqueue(row.instance, "deploy", actor, deployment_id=row.id)
    row.status, row.error_message, row.task_id, row.compose = "pending", None, task.id, None
    session.flush()
    return task


def enqueue(instance, action, actor, /, **arguments):
    return jobs.enqueue(
        f"docker_{action}",
        "instance",
        instance,
        lock="light",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments=arguments,
    )
