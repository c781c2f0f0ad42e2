"""Deploying apps: from the catalog, or from a customer's compose file."""

import json
import secrets
from typing import Any

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import DockerDeployment, Instance, Task
from panel.models.docker_deployments import CUSTOM_APP_SLUG
from panel.services import docker_apps
from panel.services.docker_deployments import refusals
from panel.services.docker_deployments.ports import ensure_ports_free, list_published_ports
from panel.services.media import remote_file


def deploy_app(
    instance: Instance,
    *,
    app_slug: str,
    actor: str,
    env_variables: dict[str, str] | None = None,
    port_mappings: list[dict[str, Any]] | None = None,
    by_operator: bool = False,
) -> tuple[DockerDeployment, Task, dict[str, str]]:
    """Deploy an app of the catalog. Return its row, its task, and the generated secrets by name, which are shown only
    now."""
    app = get_app(app_slug)
    refusals.lock_instance(instance)
    refusals.ensure_not_refused(refusals.deploy_error(instance, by_operator=by_operator))
    variables, mappings = env_variables or {}, port_mappings or []
    compose, environment = docker_apps.render_compose_file(app, variables, mappings)
    ports = list_published_ports(compose)
    ensure_ports_free(instance, ports)
    deployment = create_deployment(instance, app_slug, app.name, environment, mappings)
    deployment.ports = ports
    generated = {variable.name for variable in app.variables if variable.generate and not variables.get(variable.name)}
    generated_secrets = {name: value for name, value in environment.items() if name in generated}
    return deployment, start_deploy(deployment, actor), generated_secrets


def get_app(slug: str) -> docker_apps.App:
    try:
        return docker_apps.get(slug)
    except NotFound:
        raise Invalid(
            message("The catalog has no such app."), app_slug=message("The catalog has no such app.")
        ) from None


def deploy_compose(
    instance: Instance,
    *,
    app_name: str,
    compose_url: str,
    actor: str,
    env_variables: dict[str, str] | None = None,
    port_mappings: list[dict[str, Any]] | None = None,
    by_operator: bool = False,
) -> tuple[DockerDeployment, Task]:
    """Deploy a compose file, which workers fetch. Return the row and its task."""
    remote_file.ensure_allowed_url(compose_url, "compose_url")
    refusals.lock_instance(instance)
    refusals.ensure_not_refused(refusals.deploy_error(instance, by_operator=by_operator))
    deployment = create_deployment(instance, CUSTOM_APP_SLUG, app_name, env_variables or {}, port_mappings or [])
    deployment.compose_url = compose_url
    return deployment, start_deploy(deployment, actor)


def create_deployment(
    instance: Instance, slug: str, name: str, environment: dict[str, str], mappings: list[dict[str, Any]]
) -> DockerDeployment:
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


def retry(row: DockerDeployment, *, actor: str, by_operator: bool = False) -> Task:
    """Deploy the app again: after a failure, because its containers have errors, or because its compose file changed.
    Return the task."""
    refusals.lock_instance(row.instance)
    refusals.ensure_not_refused(refusals.engine_error(row.instance, by_operator=by_operator))
    ensure_ports_free(row.instance, row.ports, exclude_id=row.id)
    return start_deploy(row, actor)


def start_deploy(row: DockerDeployment, actor: str) -> Task:
    task = enqueue(row.instance, "deploy", actor, deployment_id=row.id)
    row.status, row.error_message, row.task_id, row.compose = "pending", None, task.id, None
    session.flush()
    return task


def enqueue(instance: Instance, action: str, actor: str, /, **arguments: Any) -> Task:
    return jobs.enqueue(
        f"docker_{action}",
        "instance",
        instance,
        lock="light",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments=arguments,
    )
