"""Schemas and answers about container apps in guests, for both dialects."""

from marshmallow import fields

from api import kit
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from panel.core.errors import NotFound
from panel.schemas.base import Time, describe
from panel.schemas.docker_deployments import (
    EXAMPLE_TIME,
    DockerAppOut,
    DockerDeploymentOut,
)
from panel.services import docker_deployments as apps
from panel.services import instances
from panel.workflows import docker_support, reachability

DOCKER_PATH = "/instance/<instance_id>/docker"
DEPLOYMENT_PATH = f"{DOCKER_PATH}/<deployment_id>"
DOCKER_FAILURES = {"responses": {409: "Conflict", 422: "Invalid", 503: "Unavailable"}}
ACTION_MESSAGES = {"start": "The app starts.", "stop": "The app stops.", "restart": "The app restarts."}
DEPLOYMENT_LIST_FIELDS: dict[str, fields.Field] = {
    "docker_enabled": fields.Boolean(**describe("Whether Docker is installed in the guest.", True)),
    "docker_installing": fields.Boolean(**describe("Whether it is being installed.", False)),
    "docker_error": fields.String(allow_none=True, **describe("Why the latest installation failed.", None)),
    "deployments": fields.List(fields.Nested(DockerDeploymentOut), **describe("Its apps, oldest first.")),
}
DEPLOYMENT_FIELD = fields.Nested(DockerDeploymentOut, **describe("The app."))
GENERATED_VALUES_FIELD = fields.Dict(
    **describe("Secrets that were made up, by the names of their variables. Shown once.", {"ADMIN_PASSWORD": "kX2v…"})
)
LOG_FIELDS: dict[str, fields.Field] = {
    "logs": fields.String(**describe("The last lines of its containers, each with its time.", "web-1  | ready\n")),
    "logs_at": Time(
        allow_none=True, **describe("When they were read in the guest; null when nobody did yet.", EXAMPLE_TIME)
    ),
    "logs_error": fields.String(allow_none=True, **describe("Why they could not be read anew.", None)),
}
Listed = kit.Done.from_dict(DEPLOYMENT_LIST_FIELDS, name="DockerDeployments")
ListedForOperators = kit.Schema.from_dict(DEPLOYMENT_LIST_FIELDS, name="DockerOfInstance")
Deployed = kit.Schema.from_dict(
    {"deployment": DEPLOYMENT_FIELD, "task_id": TASK_ID, "generated": GENERATED_VALUES_FIELD}, name="DockerDeployed"
)
kit.with_optional(Deployed, ["generated"])
Asked = kit.Schema.from_dict({"task_id": TASK_ID}, name="DockerAsked")
Removed = kit.Schema.from_dict(
    {"task_id": fields.String(allow_none=True, **describe("The task; null when the guest cannot be reached.", None))},
    name="DockerRemoved",
)
UserLogs = kit.Done.from_dict(LOG_FIELDS, name="DockerLogs")
CATALOG_RESPONSE = kit.Done.from_dict(
    {"apps": fields.List(fields.Nested(DockerAppOut), **describe("By name."))}, name="DockerApps"
)
DEPLOY_RESPONSE = kit.build_result_schema(
    deployment=DEPLOYMENT_FIELD, task_id=TASK_ID, generated=GENERATED_VALUES_FIELD
)
RETRY_RESPONSE = kit.build_result_schema(deployment=DEPLOYMENT_FIELD, task_id=TASK_ID)
TASK_RESPONSE = kit.build_result_schema(task_id=TASK_ID)

INSTALLING_MESSAGE = "Docker is being installed."
DEPLOYING_MESSAGE = "The app is being deployed."
CHECKING_MESSAGE = "Somebody looks at the app."
REMOVING_MESSAGE = "The app is removed. Its containers are being removed from the machine; data in its volumes stays."
UNREACHABLE_MESSAGE = (
    "The app is removed. The machine cannot be reached now: its containers stay on its disk until it is, and are"
    " removed then."
)


def get_instance(instance_id, by_operator=False):
    return instances.get(instance_id) if by_operator else get_own_instance(instance_id)


def get_deployment(instance_id, deployment_id, by_operator=False):
    return apps.get(get_instance(instance_id, by_operator), deployment_id)


def list_deployments(instance):
    engine = apps.find_engine(instance)
    return {
        "docker_enabled": apps.is_engine_installed(instance),
        "docker_installing": apps.find_installation(instance) is not None,
        "docker_error": engine and engine.error,
        "deployments": apps.listing(instance),
    }


def install(instance, by_operator=False):
    return {"task_id": docker_support.install(instance, actor=kit.get_current_actor(), by_operator=by_operator).id}


def deploy_app(instance, body, by_operator=False):
    reachability.check_guest(instance, by_operator=by_operator)
    row, task, generated = apps.deploy_app(instance, actor=kit.get_current_actor(), by_operator=by_operator, **body)
    return {"deployment": row, "task_id": task.id, **({"generated": generated} if generated else {})}


def deploy_compose(instance, body, by_operator=False):
    reachability.check_guest(instance, by_operator=by_operator)
    row, task = apps.deploy_compose(instance, actor=kit.get_current_actor(), by_operator=by_operator, **body)
    return {"deployment": row, "task_id": task.id}


def retry(row, by_operator=False):
    reachability.check_guest(row.instance, by_operator=by_operator)
    task = apps.retry(row, actor=kit.get_current_actor(), by_operator=by_operator)
    return {"deployment": row, "task_id": task.id}


def check_status(row, by_operator=False):
    reachability.check_guest(row.instance, by_operator=by_operator)
    return {"task_id": apps.request_probe(row, actor=kit.get_current_actor(), by_operator=by_operator).id}


def remove(row, by_operator=False):
    """Remove the app. Return the message and the response body."""
    task = apps.remove(row, actor=kit.get_current_actor(), by_operator=by_operator)
    return (REMOVING_MESSAGE if task else UNREACHABLE_MESSAGE), {"task_id": task and task.id}


def control(row, action, by_operator=False):
    if action == "remove":
        return remove(row, by_operator)
    if action not in ACTION_MESSAGES:
        raise NotFound("The actions are start, stop, restart and remove.")
    reachability.check_guest(row.instance, by_operator=by_operator)
    return ACTION_MESSAGES[action], {
        "task_id": apps.control(row, action, actor=kit.get_current_actor(), by_operator=by_operator).id
    }


def describe_logs(row):
    return {"logs": apps.get_logs(row), "logs_at": row.logs_at, "logs_error": row.logs_error}
