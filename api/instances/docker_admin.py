"""Container apps in the guests of all instances, for operators."""

from api import kit
from api.instances import admin
from api.instances import docker_schemas as answers
from api.instances.docker_schemas import DEPLOYMENT_PATH, DOCKER_PATH, get_deployment, get_instance
from panel.schemas.docker_deployments import DeployAppIn, DeployComposeIn, DockerAppOut, DockerLogsOut
from panel.services import docker_apps
from panel.workflows import docker_logs

READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"


@admin.get(DOCKER_PATH, op="docker", can=READ_PERMISSION, out=answers.ListedForOperators)
def admin_show(instance_id):
    """Get the Docker state and container apps of an instance.

    Returns the latest known state; this call does not query the guest.
    """
    return answers.list_deployments(get_instance(instance_id, True))


@admin.post(DOCKER_PATH, op="docker_deploy", can=WRITE_PERMISSION, body=DeployAppIn, out=answers.Deployed)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_deploy(body, instance_id):
    """Deploy an app from the catalog.

    The task pulls and starts the app's containers; the deployment shows its progress. Returns 422 `port_taken` for a
    host port of another app, and the same errors as the user API.
    """
    kit.set_message(answers.DEPLOYING_MESSAGE)
    return answers.deploy_app(get_instance(instance_id, True), body, True)


@admin.post(
    f"{DOCKER_PATH}/custom",
    op="docker_deploy_compose",
    can=WRITE_PERMISSION,
    body=DeployComposeIn,
    out=answers.Deployed,
)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_deploy_compose(body, instance_id):
    """Deploy a compose file.

    Send its https URL as `compose_url`. The task starts its services. Returns 422 for an invalid file, 422 `port_taken`
    for a host port of another app, and the same errors as the user API.
    """
    kit.set_message(answers.DEPLOYING_MESSAGE)
    return answers.deploy_compose(get_instance(instance_id, True), body, True)


@admin.post(f"{DOCKER_PATH}/install", op="docker_install", can=WRITE_PERMISSION, out=answers.Asked)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_install(instance_id):
    """Install Docker in the guest through the guest agent.

    `docker_error` is the reason of a failed installation. Returns 422 `already_installed` if Docker is installed, 422
    `not_running` for a stopped instance, and the same errors as the user API.
    """
    kit.set_message(answers.INSTALLING_MESSAGE)
    return answers.install(get_instance(instance_id, True), True)


@admin.get(f"{DOCKER_PATH}/apps", op="docker_apps", can=READ_PERMISSION, out=DockerAppOut(many=True))
def admin_catalog(instance_id):
    """List the apps of the catalog with their variables.

    The catalog is the same for all instances.
    """
    get_instance(instance_id, True)
    return docker_apps.listing()


@admin.get(f"{DOCKER_PATH}/app/<app_slug>", op="docker_app", can=READ_PERMISSION, out=DockerAppOut)
def admin_catalog_app(instance_id, app_slug):
    """Get an app of the catalog.

    Contains its variables and ports. Returns 404 if the catalog has no such app.
    """
    get_instance(instance_id, True)
    return docker_apps.get(app_slug)


@admin.get(f"{DEPLOYMENT_PATH}/logs", op="docker_logs", can=WRITE_PERMISSION, out=DockerLogsOut, writes=True)
def admin_logs(instance_id, deployment_id):
    """Read the latest logs of an app in the guest.

    Requires write permission because logs can contain secrets.
    """
    return answers.describe_logs(docker_logs.fetch_logs(get_deployment(instance_id, deployment_id, True)))


@admin.get(f"{DEPLOYMENT_PATH}/cached-logs", op="docker_cached_logs", can=WRITE_PERMISSION, out=DockerLogsOut)
def admin_cached_logs(instance_id, deployment_id):
    """Get the stored logs of an app from the last time they were read.

    This call does not query the guest; the logs are empty if they were never read. Requires write permission because
    logs can contain secrets.
    """
    return answers.describe_logs(get_deployment(instance_id, deployment_id, True))


@admin.post(f"{DEPLOYMENT_PATH}/check-status", op="docker_check_status", can=WRITE_PERMISSION, out=answers.Asked)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_check_status(instance_id, deployment_id):
    """Check the state of an app in the guest.

    The task updates the state of the deployment; if a check is already in progress, its task is returned. Returns 409
    `agent_unavailable`, 422 `not_running` or 503 `hypervisor_unreachable` while the guest cannot be reached.
    """
    kit.set_message(answers.CHECKING_MESSAGE)
    return answers.check_status(get_deployment(instance_id, deployment_id, True), True)


@admin.post(f"{DEPLOYMENT_PATH}/retry", op="docker_retry", can=WRITE_PERMISSION, out=answers.Deployed)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_retry(instance_id, deployment_id):
    """Deploy an app again with the same settings.

    For an app whose deployment failed. The deployment keeps its id. Returns the same errors as the user API.
    """
    kit.set_message(answers.DEPLOYING_MESSAGE)
    return answers.retry(get_deployment(instance_id, deployment_id, True), True)


@admin.post(f"{DEPLOYMENT_PATH}/<app_action>", op="docker_control", can=WRITE_PERMISSION, out=answers.Removed)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_control(instance_id, deployment_id, app_action):
    """Start, stop, restart or remove an app.

    `remove` is the same as DELETE. Returns 404 for another action, 409 `not_deployed` for an app whose deployment
    failed, and the same errors as the user API.
    """
    message, answer = answers.control(get_deployment(instance_id, deployment_id, True), app_action, True)
    kit.set_message(message)
    return answer


@admin.delete(DEPLOYMENT_PATH, op="docker_delete", can=WRITE_PERMISSION, out=answers.Removed)
def admin_delete(instance_id, deployment_id):
    """Remove an app.

    The deployment is deleted immediately, and its open tasks are cancelled. Its containers are removed as soon as the
    guest can be reached. Data in its volumes stays in the guest. `task_id` is null while the guest cannot be reached.
    """
    message, answer = answers.remove(get_deployment(instance_id, deployment_id, True), True)
    kit.set_message(message)
    return answer
