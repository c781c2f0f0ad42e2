"""Container apps in the guests of customers' instances."""

from api import kit
from api.instances import docker_schemas as answers
from api.instances import user
from api.instances.customer import get_own_instance
from api.instances.docker_schemas import DEPLOYMENT_PATH, DOCKER_PATH, get_deployment
from panel.schemas.docker_deployments import DeployAppIn, DeployComposeIn, DockerAppOut
from panel.services import docker_apps
from panel.workflows import docker_logs

VIEW_PERMISSION, MANAGE_PERMISSION, CONSOLE_PERMISSION = "instances.view", "instances.manage", "instances.console"


@user.get(DOCKER_PATH, op="docker", can=VIEW_PERMISSION, out=answers.Listed)
def show(instance_id):
    """Get the Docker state and container apps of an instance.

    The list is complete and has no pages. Poll it until `docker_enabled` is true after an installation, and until an
    app is `running`, `error` or `failed` after a deployment.
    """
    return {"success": True, "message": None, **answers.list_deployments(get_own_instance(instance_id))}


@user.post(DOCKER_PATH, op="docker_deploy", can=MANAGE_PERMISSION, body=DeployAppIn, out=answers.DEPLOY_RESPONSE)
@user.doc(**answers.DOCKER_FAILURES)
def deploy(body, instance_id):
    """Deploy an app from the catalog.

    Returns 422 `docker_not_installed`, `docker_task_running` (only one installation, deployment or action at a time),
    `not_running`, `docker_limit`, `port_taken` (by another app), and 422 under the field for an unknown app or a
    missing variable; 409 `suspended`, `task_running`, `not_deployed`, `rescue_active`, or `agent_unavailable` if the
    guest agent does not respond; 503 `hypervisor_unreachable` if the hypervisor does not respond.
    """
    return {"message": answers.DEPLOYING_MESSAGE, **answers.deploy_app(get_own_instance(instance_id), body)}


@user.post(
    f"{DOCKER_PATH}/custom",
    op="docker_deploy_compose",
    can=MANAGE_PERMISSION,
    body=DeployComposeIn,
    out=answers.RETRY_RESPONSE,
)
@user.doc(**answers.DOCKER_FAILURES)
def deploy_compose(body, instance_id):
    """Deploy a compose file.

    The panel downloads it from `compose_url`: https, public addresses only, at most 256 KiB. If the download fails or
    the file is invalid, the app is `failed` with the reason. Returns the same errors as the deployment of an app.
    """
    return {"message": answers.DEPLOYING_MESSAGE, **answers.deploy_compose(get_own_instance(instance_id), body)}


@user.post(f"{DOCKER_PATH}/install", op="docker_install", can=MANAGE_PERMISSION, out=answers.TASK_RESPONSE)
@user.doc(**answers.DOCKER_FAILURES)
def install(instance_id):
    """Install Docker in the guest through the guest agent.

    Uses the packages of the guest's distribution and takes minutes: poll the list until `docker_enabled` is true. If it
    fails, `docker_installing` and `docker_enabled` are false and `docker_error` is the reason. Returns 422
    `already_installed`, `docker_task_running`, `not_running` or `unsupported_system` (no supported package manager),
    and 409 and 503 as for a deployment.
    """
    return {"message": answers.INSTALLING_MESSAGE, **answers.install(get_own_instance(instance_id))}


@user.get(f"{DOCKER_PATH}/apps", op="docker_apps", can=VIEW_PERMISSION, out=answers.CATALOG_RESPONSE)
def catalog(instance_id):
    """List the apps of the catalog with their variables."""
    get_own_instance(instance_id)
    return {"success": True, "message": None, "apps": docker_apps.listing()}


@user.get(
    f"{DOCKER_PATH}/app/<app_slug>",
    op="docker_app",
    can=VIEW_PERMISSION,
    out=kit.build_wrapped_schema("app", DockerAppOut),
)
def catalog_app(instance_id, app_slug):
    """Get an app of the catalog."""
    get_own_instance(instance_id)
    return {"message": None, "app": docker_apps.get(app_slug)}


@user.get(f"{DEPLOYMENT_PATH}/logs", op="docker_logs", can=CONSOLE_PERMISSION, out=answers.UserLogs, writes=True)
def logs(instance_id, deployment_id):
    """Read the latest logs of an app in the guest.

    If the guest does not respond within a few seconds, `logs_error` is the reason and `logs` contains the stored logs.
    """
    return {
        "success": True,
        "message": None,
        **answers.describe_logs(docker_logs.fetch_logs(get_deployment(instance_id, deployment_id))),
    }


@user.get(f"{DEPLOYMENT_PATH}/cached-logs", op="docker_cached_logs", can=CONSOLE_PERMISSION, out=answers.UserLogs)
def cached_logs(instance_id, deployment_id):
    """Get the stored logs of an app from the last time they were read."""
    return {"success": True, "message": None, **answers.describe_logs(get_deployment(instance_id, deployment_id))}


@user.post(
    f"{DEPLOYMENT_PATH}/check-status", op="docker_check_status", can=MANAGE_PERMISSION, out=answers.TASK_RESPONSE
)
@user.doc(**answers.DOCKER_FAILURES)
def check_status(instance_id, deployment_id):
    """Check the state of an app in the guest. This also happens automatically every few minutes."""
    return {"message": answers.CHECKING_MESSAGE, **answers.check_status(get_deployment(instance_id, deployment_id))}


@user.post(f"{DEPLOYMENT_PATH}/retry", op="docker_retry", can=MANAGE_PERMISSION, out=answers.RETRY_RESPONSE)
@user.doc(**answers.DOCKER_FAILURES)
def retry(instance_id, deployment_id):
    """Deploy an app again with the same settings.

    For an app that failed or has errors; also to use a compose file that has changed at its URL.
    """
    return {"message": answers.DEPLOYING_MESSAGE, **answers.retry(get_deployment(instance_id, deployment_id))}


@user.post(f"{DEPLOYMENT_PATH}/<app_action>", op="docker_control", can=MANAGE_PERMISSION, out=answers.TASK_RESPONSE)
@user.doc(**answers.DOCKER_FAILURES)
def control(instance_id, deployment_id, app_action):
    """Start, stop, restart or remove an app.

    `remove` is the same as DELETE. The other actions return the same errors as a deployment, and 409 `not_deployed` for
    an app whose deployment failed.
    """
    message, answer = answers.control(get_deployment(instance_id, deployment_id), app_action)
    return {"message": message, **({} if answer["task_id"] is None else answer)}


@user.delete(DEPLOYMENT_PATH, op="docker_delete", can=MANAGE_PERMISSION, out=answers.TASK_RESPONSE)
def delete(instance_id, deployment_id):
    """Remove an app.

    It is removed from the list immediately; its containers are removed as soon as the guest can be reached. Data in its
    volumes is kept. Returns 409 `suspended` or `task_running`.
    """
    message, answer = answers.remove(get_deployment(instance_id, deployment_id))
    return {"message": message, **({} if answer["task_id"] is None else answer)}
