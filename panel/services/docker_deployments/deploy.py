"""Deploying apps: from the catalog, and from a compose file of the customer's own."""

import json
import secrets

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.models import DockerDeployment
from panel.models.docker_deployments import CUSTOM
from panel.services import docker_apps
from panel.services.docker_deployments import refusals
from panel.services.docker_deployments.ports import published, refuse_taken
from panel.services.media import remote_file


def deploy_app(instance, *, app_slug, actor, env_variables=None, port_mappings=None, by_operator=False):
    """Deploys an app of the catalog. Returns it, its task, and by name the secrets that were made up for it: they are
    shown this once."""
    app = known(app_slug)
    refusals.alone(instance)
    refusals.need(refusals.why_no_deploy(instance, by_operator=by_operator))
    given, mappings = env_variables or {}, port_mappings or []
    compose, environment = docker_apps.compose(app, given, mappings)
    ports = published(compose)
    refuse_taken(instance, ports)
    made = new(instance, app_slug, app.name, environment, mappings)
    made.ports = ports
    made_up = {each.name for each in app.variables if each.generate and not given.get(each.name)}
    shown = {name: value for name, value in environment.items() if name in made_up}
    return made, begin(made, actor), shown


def known(slug):
    try:
        return docker_apps.get(slug)
    except NotFound:
        raise Invalid("The catalog has no such app.", app_slug="The catalog has no such app.") from None


def deploy_compose(
    instance, *, app_name, compose_url, actor, env_variables=None, port_mappings=None, by_operator=False
):
    """Deploys what a compose file says, which workers fetch. Returns it and its task."""
    remote_file.check(compose_url, "compose_url")
    refusals.alone(instance)
    refusals.need(refusals.why_no_deploy(instance, by_operator=by_operator))
    made = new(instance, CUSTOM, app_name, env_variables or {}, port_mappings or [])
    made.compose_url = compose_url
    return made, begin(made, actor)


def new(instance, slug, name, environment, mappings):
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
    refusals.alone(row.instance)
    refusals.need(refusals.why_not(row.instance, by_operator=by_operator))
    refuse_taken(row.instance, row.ports, but=row.id)
    return begin(row, actor)


def begin(row, actor):
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
