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
    """Show the container apps of an instance, and whether Docker is there to run them.

    Nothing is asked of the guest: it is what was read last.
    """
    return answers.list_deployments(get_instance(instance_id, True))


@admin.post(DOCKER_PATH, op="docker_deploy", can=WRITE_PERMISSION, body=DeployAppIn, out=answers.Deployed)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_deploy(body, instance_id):
    """Deploy an app of the catalog.

    Refusals are those of the user API. The task pulls the app's containers and starts them; the row shows its progress.
    422 `port_taken` names a host port that another app has.
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
    """Deploy what a compose file says.

    Refusals are those of the user API. Give the file or its https address. The task starts what it says; 422 for a file
    that cannot be read, 422 `port_taken` for a host port that another app has.
    """
    kit.set_message(answers.DEPLOYING_MESSAGE)
    return answers.deploy_compose(get_instance(instance_id, True), body, True)


@admin.post(f"{DOCKER_PATH}/install", op="docker_install", can=WRITE_PERMISSION, out=answers.Asked)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_install(instance_id):
    """Install Docker in the guest, by its guest agent.

    Refusals are those of the user API. 422 `already_installed` where Docker is there, 422 `not_running` for an instance
    that is off. A failed installation is told as `docker_error`.
    """
    kit.set_message(answers.INSTALLING_MESSAGE)
    return answers.install(get_instance(instance_id, True), True)


@admin.get(f"{DOCKER_PATH}/apps", op="docker_apps", can=READ_PERMISSION, out=DockerAppOut(many=True))
def admin_catalog(instance_id):
    """List the apps that can be deployed with one call, with the variables of each.

    The catalog is the same for every instance.
    """
    get_instance(instance_id, True)
    return docker_apps.listing()


@admin.get(f"{DOCKER_PATH}/app/<app_slug>", op="docker_app", can=READ_PERMISSION, out=DockerAppOut)
def admin_catalog_app(instance_id, app_slug):
    """Show an app of the catalog.

    With the variables that it takes and the ports that it opens. 404 for an app that the catalog does not have.
    """
    get_instance(instance_id, True)
    return docker_apps.get(app_slug)


@admin.get(f"{DEPLOYMENT_PATH}/logs", op="docker_logs", can=WRITE_PERMISSION, out=DockerLogsOut, writes=True)
def admin_logs(instance_id, deployment_id):
    """Read what the app's containers wrote last, in the guest.

    Logs may hold secrets, so it takes the right to write.
    """
    return answers.describe_logs(docker_logs.fetch_logs(get_deployment(instance_id, deployment_id, True)))


@admin.get(f"{DEPLOYMENT_PATH}/cached-logs", op="docker_cached_logs", can=WRITE_PERMISSION, out=DockerLogsOut)
def admin_cached_logs(instance_id, deployment_id):
    """Show what the app's containers wrote, as it was read last.

    It takes the right to write, as reading them does. Empty when nobody read them yet. Nothing is asked of the guest.
    """
    return answers.describe_logs(get_deployment(instance_id, deployment_id, True))


@admin.post(f"{DEPLOYMENT_PATH}/check-status", op="docker_check_status", can=WRITE_PERMISSION, out=answers.Asked)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_check_status(instance_id, deployment_id):
    """Have the state of an app looked at in the guest.

    The task writes what it finds to the app's row; one that is under way already is answered again. Refused while the
    guest cannot be reached: 409 `agent_unavailable`, 422 `not_running`, 503 `hypervisor_unreachable`.
    """
    kit.set_message(answers.CHECKING_MESSAGE)
    return answers.check_status(get_deployment(instance_id, deployment_id, True), True)


@admin.post(f"{DEPLOYMENT_PATH}/retry", op="docker_retry", can=WRITE_PERMISSION, out=answers.Deployed)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_retry(instance_id, deployment_id):
    """Deploy an app once more, with what it was deployed with.

    For an app whose deployment failed. The row keeps its id. Refusals are those of the user API.
    """
    kit.set_message(answers.DEPLOYING_MESSAGE)
    return answers.retry(get_deployment(instance_id, deployment_id, True), True)


@admin.post(f"{DEPLOYMENT_PATH}/<app_action>", op="docker_control", can=WRITE_PERMISSION, out=answers.Removed)
@admin.doc(**answers.DOCKER_FAILURES)
def admin_control(instance_id, deployment_id, app_action):
    """Start, stop, restart or remove an app.

    Refusals are those of the user API. An action that is not one of the four answers 404. `remove` does what DELETE
    does. 409 `not_deployed` for an app whose deployment failed.
    """
    message, answer = answers.control(get_deployment(instance_id, deployment_id, True), app_action, True)
    kit.set_message(message)
    return answer


@admin.delete(DEPLOYMENT_PATH, op="docker_delete", can=WRITE_PERMISSION, out=answers.Removed)
def admin_delete(instance_id, deployment_id):
    """Remove an app.

    Its containers are removed in the guest then, or when the guest is reached again. The row is gone at once, and open
    tasks of the app are cancelled. Data in its volumes stays in the guest. `task_id` is null while the guest cannot be
    reached.
    """
    message, answer = answers.remove(get_deployment(instance_id, deployment_id, True), True)
    kit.set_message(message)
    return answer
