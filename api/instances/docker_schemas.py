"""What both dialects answer about container apps in guests."""

from marshmallow import fields

from api import kit
from api.instances.actions import TASK_ID
from api.instances.customer import mine
from panel.core.errors import NotFound
from panel.schemas.base import Time, about
from panel.schemas.docker_deployments import (
    MOMENT,
    DockerAppOut,
    DockerDeploymentOut,
)
from panel.services import docker_deployments as apps
from panel.services import instances
from panel.workflows import docker_support, reachability

PATH = "/instance/<instance_id>/docker"
ONE = f"{PATH}/<deployment_id>"
FAILS = {"responses": {409: "Conflict", 422: "Invalid", 503: "Unavailable"}}
DONE = {"start": "The app starts.", "stop": "The app stops.", "restart": "The app restarts."}
LISTED = {
    "docker_enabled": fields.Boolean(**about("Whether Docker is installed in the guest.", True)),
    "docker_installing": fields.Boolean(**about("Whether it is being installed.", False)),
    "docker_error": fields.String(allow_none=True, **about("Why the latest installation failed.", None)),
    "deployments": fields.List(fields.Nested(DockerDeploymentOut), **about("Its apps, oldest first.")),
}
DEPLOYMENT = fields.Nested(DockerDeploymentOut, **about("The app."))
GENERATED = fields.Dict(
    **about("Secrets that were made up, by the names of their variables. Shown once.", {"ADMIN_PASSWORD": "kX2v…"})
)
LOGS = {
    "logs": fields.String(**about("The last lines of its containers, each with its time.", "web-1  | ready\n")),
    "logs_at": Time(allow_none=True, **about("When they were read in the guest; null when nobody did yet.", MOMENT)),
    "logs_error": fields.String(allow_none=True, **about("Why they could not be read anew.", None)),
}
Listed = kit.Done.from_dict(LISTED, name="DockerDeployments")
ListedForOperators = kit.Schema.from_dict(LISTED, name="DockerOfInstance")
Deployed = kit.Schema.from_dict(
    {"deployment": DEPLOYMENT, "task_id": TASK_ID, "generated": GENERATED}, name="DockerDeployed"
)
Deployed.sometimes = ("generated",)
Asked = kit.Schema.from_dict({"task_id": TASK_ID}, name="DockerAsked")
Removed = kit.Schema.from_dict(
    {"task_id": fields.String(allow_none=True, **about("The task; null when the guest cannot be reached.", None))},
    name="DockerRemoved",
)
UserLogs = kit.Done.from_dict(LOGS, name="DockerLogs")
APPS = kit.Done.from_dict({"apps": fields.List(fields.Nested(DockerAppOut), **about("By name."))}, name="DockerApps")
DEPLOYED = kit.done(deployment=DEPLOYMENT, task_id=TASK_ID, generated=GENERATED)
RETRIED = kit.done(deployment=DEPLOYMENT, task_id=TASK_ID)
STARTED = kit.done(task_id=TASK_ID)

INSTALLS = "Docker is being installed."
DEPLOYS = "The app is being deployed."
LOOKS = "Somebody looks at the app."
REMOVES = "The app is removed. Its containers are being removed from the machine; data in its volumes stays."
STAYS = (
    "The app is removed. The machine cannot be reached now: its containers stay on its disk until it is, and are"
    " removed then."
)


def found(instance_id, by_operator=False):
    return instances.get(instance_id) if by_operator else mine(instance_id)


def one(instance_id, deployment_id, by_operator=False):
    return apps.get(found(instance_id, by_operator), deployment_id)


def listed(instance):
    engine = apps.engine(instance)
    return {
        "docker_enabled": apps.enabled(instance),
        "docker_installing": apps.installing(instance) is not None,
        "docker_error": engine and engine.error,
        "deployments": apps.listing(instance),
    }


def installed(instance, by_operator=False):
    return {"task_id": docker_support.install(instance, actor=kit.actor(), by_operator=by_operator).id}


def deployed(instance, body, by_operator=False):
    reachability.check_guest(instance, by_operator=by_operator)
    row, task, generated = apps.deploy_app(instance, actor=kit.actor(), by_operator=by_operator, **body)
    return {"deployment": row, "task_id": task.id, **({"generated": generated} if generated else {})}


def composed(instance, body, by_operator=False):
    reachability.check_guest(instance, by_operator=by_operator)
    row, task = apps.deploy_compose(instance, actor=kit.actor(), by_operator=by_operator, **body)
    return {"deployment": row, "task_id": task.id}


def retried(row, by_operator=False):
    reachability.check_guest(row.instance, by_operator=by_operator)
    task = apps.retry(row, actor=kit.actor(), by_operator=by_operator)
    return {"deployment": row, "task_id": task.id}


def looked(row, by_operator=False):
    reachability.check_guest(row.instance, by_operator=by_operator)
    return {"task_id": apps.check(row, actor=kit.actor(), by_operator=by_operator).id}


def removed(row, by_operator=False):
    """The sentence and the answer."""
    task = apps.remove(row, actor=kit.actor(), by_operator=by_operator)
    return (REMOVES if task else STAYS), {"task_id": task and task.id}


def controlled(row, action, by_operator=False):
    if action == "remove":
        return removed(row, by_operator)
    if action not in DONE:
        raise NotFound("The actions are start, stop, restart and remove.")
    reachability.check_guest(row.instance, by_operator=by_operator)
    return DONE[action], {"task_id": apps.control(row, action, actor=kit.actor(), by_operator=by_operator).id}


def wrote(row):
    return {"logs": apps.logs(row), "logs_at": row.logs_at, "logs_error": row.logs_error}
