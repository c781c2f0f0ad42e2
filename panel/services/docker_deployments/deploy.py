"""Deploying apps: from the catalog, and from a compose file of the customer's own."""

import json
import secrets

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.models import DockerDeployment
from panel.models.docker_deployments import CUSTOM_APP_SLUG
from panel.services import docker_apps
from panel.services.docker_deployments import refusals
from panel.services.docker_deployments.ports import ensure_ports_free, list_published_ports
from panel.services.media import remote_file


def deploy_app(instance, *, app_slug, actor, env_variables=None, port_mappings=None, by_operator=False):
    """Deploys an app of the catalog. Returns it, its task, and by name the secrets that were made up for it: they are
    shown this once."""
    app = get_app(app_slug)
    refusals.lock_instance(instance)
    refusals.ensure_not_refused(refusals.deploy_error(instance, by_operator=by_operator))
    given, mappings = env_variables or {}, port_mappings or []
    compose, environment = docker_apps.compose(app, given, mappings)
    ports = list_published_ports(compose)
    ensure_ports_free(instance, ports)
    made = create_deployment(instance, app_slug, app.name, environment, mappings)
    made.ports = ports
    made_up = {each.name for each in app.variables if each.generate and not given.get(each.name)}
    shown = {name: value for name, value in environment.items() if name in made_up}
    return made, start_deploy(made, actor), shown


def get_app(slug):
    try:
        return docker_apps.get(slug)
    except NotFound:
        raise Invalid("The catalog has no such app.", app_slug="The catalog has no such app.") from None


def deploy_compose(
    instance, *, app_name, compose_url, actor, env_variables=None, port_mappings=None, by_operator=False
):
    """Deploys what a compose file says, which workers fetch. Returns it and its task."""
    remote_file.ensure_allowed_url(compose_url, "compose_url")
    refusals.lock_instance(instance)
    refusals.ensure_not_refused(refusals.deploy_error(instance, by_operator=by_operator))
    made = create_deployment(instance, CUSTOM_APP_SLUG, app_name, env_variables or {}, port_mappings or [])
    made.compose_url = compose_url
    return made, start_deploy(made, actor)


def create_deployment(instance, slug, name, environment, mappings):
    made = DockerDeployment(
        instance=instance,
        app_slug=slug,
        app_name=name,
        project_name=f"{slug}-{secrets.token_hex(4)}",
        environment=json.dumps(environment),
        port_mappings=mappings,
    )
    session.add(made)
    session.flush()
    return made


def retry(row, *, actor, by_operator=False):
    """Deploys it once more: what failed, what does not do well, or what changed at its address. Returns the task."""
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
