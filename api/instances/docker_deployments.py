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
    """Show the container apps of an instance, and whether Docker is there to run them.

    Everything in one answer, without pages. Look here until `docker_enabled` is true after an installation, and until
    an app is `running`, or `error` or `failed`, after a deploy.
    """
    return {"success": True, "message": None, **answers.list_deployments(get_own_instance(instance_id))}


@user.post(DOCKER_PATH, op="docker_deploy", can=MANAGE_PERMISSION, body=DeployAppIn, out=answers.DEPLOY_RESPONSE)
@user.doc(**answers.DOCKER_FAILURES)
def deploy(body, instance_id):
    """Deploy an app of the catalog.

    Refused with 422: `docker_not_installed`, `docker_task_running` (one installation, deploy or action at a time),
    `not_running`, `docker_limit`, `port_taken` (by another app), and under the field for an app that the catalog does
    not have or a variable that is missing; with 409: `suspended`, `task_running`, `not_deployed`, `rescue_active`,
    `agent_unavailable` when the guest agent is known to be away; 503 `hypervisor_unreachable` when the node does not
    answer.
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
    """Deploy what a compose file says.

    The panel fetches it from `compose_url`: https on public addresses, 256 KiB at most; one that cannot be had, or is
    no compose file, makes the app `failed` with the reason. Refusals are those of an app of the catalog.
    """
    return {"message": answers.DEPLOYING_MESSAGE, **answers.deploy_compose(get_own_instance(instance_id), body)}


@user.post(f"{DOCKER_PATH}/install", op="docker_install", can=MANAGE_PERMISSION, out=answers.TASK_RESPONSE)
@user.doc(**answers.DOCKER_FAILURES)
def install(instance_id):
    """Install Docker in the guest, by its guest agent.

    With the packages of the guest's own system. It takes minutes: look at the list until `docker_enabled` is true.
    Refused with 422 `already_installed`, `docker_task_running`, `not_running`, `unsupported_system` (the guest has no
    package manager that the panel knows), and with 409 and 503 as a deploy is. `docker_error` of the list says why an
    installation failed; `docker_installing` is false then, and `docker_enabled`, too.
    """
    return {"message": answers.INSTALLING_MESSAGE, **answers.install(get_own_instance(instance_id))}


@user.get(f"{DOCKER_PATH}/apps", op="docker_apps", can=VIEW_PERMISSION, out=answers.CATALOG_RESPONSE)
def catalog(instance_id):
    """List the apps that can be deployed with one call, with the variables of each."""
    get_own_instance(instance_id)
    return {"success": True, "message": None, "apps": docker_apps.listing()}


@user.get(
    f"{DOCKER_PATH}/app/<app_slug>",
    op="docker_app",
    can=VIEW_PERMISSION,
    out=kit.build_wrapped_schema("app", DockerAppOut),
)
def catalog_app(instance_id, app_slug):
    """Show an app of the catalog."""
    get_own_instance(instance_id)
    return {"message": None, "app": docker_apps.get(app_slug)}


@user.get(f"{DEPLOYMENT_PATH}/logs", op="docker_logs", can=CONSOLE_PERMISSION, out=answers.UserLogs, writes=True)
def logs(instance_id, deployment_id):
    """Read what the app's containers wrote last, in the guest.

    When the guest does not answer within some seconds, `logs_error` says why and `logs` has what was read before.
    """
    return {
        "success": True,
        "message": None,
        **answers.describe_logs(docker_logs.fetch_logs(get_deployment(instance_id, deployment_id))),
    }


@user.get(f"{DEPLOYMENT_PATH}/cached-logs", op="docker_cached_logs", can=CONSOLE_PERMISSION, out=answers.UserLogs)
def cached_logs(instance_id, deployment_id):
    """Show what the app's containers wrote, as it was read last."""
    return {"success": True, "message": None, **answers.describe_logs(get_deployment(instance_id, deployment_id))}


@user.post(
    f"{DEPLOYMENT_PATH}/check-status", op="docker_check_status", can=MANAGE_PERMISSION, out=answers.TASK_RESPONSE
)
@user.doc(**answers.DOCKER_FAILURES)
def check_status(instance_id, deployment_id):
    """Have the state of an app looked at in the guest. That also happens every few minutes by itself."""
    return {"message": answers.CHECKING_MESSAGE, **answers.check_status(get_deployment(instance_id, deployment_id))}


@user.post(f"{DEPLOYMENT_PATH}/retry", op="docker_retry", can=MANAGE_PERMISSION, out=answers.RETRY_RESPONSE)
@user.doc(**answers.DOCKER_FAILURES)
def retry(instance_id, deployment_id):
    """Deploy an app once more, with what it was deployed with.

    For one that failed or does not do well; also to use a compose file that changed at its address.
    """
    return {"message": answers.DEPLOYING_MESSAGE, **answers.retry(get_deployment(instance_id, deployment_id))}


@user.post(f"{DEPLOYMENT_PATH}/<app_action>", op="docker_control", can=MANAGE_PERMISSION, out=answers.TASK_RESPONSE)
@user.doc(**answers.DOCKER_FAILURES)
def control(instance_id, deployment_id, app_action):
    """Start, stop, restart or remove an app.

    `remove` is the same as DELETE. The others are refused as a deploy is, and with 409 `not_deployed` for an app that
    could not be deployed.
    """
    message, answer = answers.control(get_deployment(instance_id, deployment_id), app_action)
    return {"message": message, **({} if answer["task_id"] is None else answer)}


@user.delete(DEPLOYMENT_PATH, op="docker_delete", can=MANAGE_PERMISSION, out=answers.TASK_RESPONSE)
def delete(instance_id, deployment_id):
    """Remove an app.

    It is gone from the list at once; its containers are removed in the guest then, or when the guest is reached again.
    Data in its volumes stays. Refused with 409 `suspended` and `task_running`.
    """
    message, answer = answers.remove(get_deployment(instance_id, deployment_id))
    return {"message": message, **({} if answer["task_id"] is None else answer)}
