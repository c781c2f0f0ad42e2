"""Schemas and responses about container apps in guests, for both dialects."""

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
ACTION_MESSAGES = {"start": "Start requested.", "stop": "Stop requested.", "restart": "Restart requested."}
DEPLOYMENT_LIST_FIELDS: dict[str, fields.Field] = {
    "docker_enabled": fields.Boolean(**describe("Whether Docker is installed in the guest.", True)),
    "docker_installing": fields.Boolean(**describe("Whether Docker is being installed.", False)),
    "docker_error": fields.String(allow_none=True, **describe("Why the latest installation failed.", None)),
    "deployments": fields.List(fields.Nested(DockerDeploymentOut), **describe("Apps, oldest first.")),
}
DEPLOYMENT_FIELD = fields.Nested(DockerDeploymentOut, **describe("The app."))
GENERATED_VALUES_FIELD = fields.Dict(
    **describe("Generated secrets, by variable name. Shown only once.", {"ADMIN_PASSWORD": "kX2v…"})
)
LOG_FIELDS: dict[str, fields.Field] = {
    "logs": fields.String(**describe("The last log lines of its containers, with timestamps.", "web-1  | ready\n")),
    "logs_at": Time(allow_none=True, **describe("When the logs were read in the guest; null if never.", EXAMPLE_TIME)),
    "logs_error": fields.String(allow_none=True, **describe("Why the logs could not be read the last time.", None)),
}
Listed = kit.Done.from_dict(DEPLOYMENT_LIST_FIELDS, name="DockerDeployments")
ListedForOperators = kit.Schema.from_dict(DEPLOYMENT_LIST_FIELDS, name="DockerOfInstance")
Deployed = kit.Schema.from_dict(
    {"deployment": DEPLOYMENT_FIELD, "task_id": TASK_ID, "generated": GENERATED_VALUES_FIELD}, name="DockerDeployed"
)
kit.with_optional(Deployed, ["generated"])
Asked = kit.Schema.from_dict({"task_id": TASK_ID}, name="DockerAsked")
Removed = kit.Schema.from_dict(
    {"task_id": fields.String(allow_none=True, **describe("The task; null if the guest cannot be reached.", None))},
    name="DockerRemoved",
)
UserLogs = kit.Done.from_dict(LOG_FIELDS, name="DockerLogs")
CATALOG_RESPONSE = kit.Done.from_dict(
    {"apps": fields.List(fields.Nested(DockerAppOut), **describe("Apps, sorted by name."))}, name="DockerApps"
)
DEPLOY_RESPONSE = kit.build_result_schema(
    deployment=DEPLOYMENT_FIELD, task_id=TASK_ID, generated=GENERATED_VALUES_FIELD
)
RETRY_RESPONSE = kit.build_result_schema(deployment=DEPLOYMENT_FIELD, task_id=TASK_ID)
TASK_RESPONSE = kit.build_result_schema(task_id=TASK_ID)

INSTALLING_MESSAGE = "Installation of Docker requested."
DEPLOYING_MESSAGE = "Deployment requested."
CHECKING_MESSAGE = "Check requested."
REMOVING_MESSAGE = "App removed. Deletion of its containers requested. Data in its volumes stays on the instance."
UNREACHABLE_MESSAGE = (
    "App removed. The guest cannot be reached at the moment; its containers are removed as soon as it can be reached."
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
        raise NotFound("No such action. Use start, stop, restart or remove.")
    reachability.check_guest(row.instance, by_operator=by_operator)
    return ACTION_MESSAGES[action], {
        "task_id": apps.control(row, action, actor=kit.get_current_actor(), by_operator=by_operator).id
    }


def describe_logs(row):
    return {"logs": apps.get_logs(row), "logs_at": row.logs_at, "logs_error": row.logs_error}
