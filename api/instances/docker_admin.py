"""Container apps in the guests of everybody's instances."""

from api import kit
from api.instances import admin
from api.instances import docker_schemas as answers
from api.instances.docker_schemas import ONE, PATH, found, one
from panel.schemas.docker_deployments import DeployAppIn, DeployComposeIn, DockerAppOut, DockerLogsOut
from panel.services import docker_apps
from panel.workflows import docker_logs

READ, WRITE = "admin:instances:read", "admin:instances:write"


@admin.get(PATH, op="docker", can=READ, out=answers.ListedForOperators)
def show_any(instance_id):
    """Show the container apps of an instance, and whether Docker is there to run them.

    Nothing is asked of the guest: it is what was read last.
    """
    return answers.listed(found(instance_id, True))


@admin.post(PATH, op="docker_deploy", can=WRITE, body=DeployAppIn, out=answers.Deployed)
@admin.doc(**answers.FAILS)
def deploy_to_any(body, instance_id):
    """Deploy an app of the catalog.

    Refusals are those of the user API. The task pulls the app's containers and starts them; the row shows its progress.
    422 `port_taken` names a host port that another app has.
    """
    kit.say(answers.DEPLOYS)
    return answers.deployed(found(instance_id, True), body, True)


@admin.post(f"{PATH}/custom", op="docker_deploy_compose", can=WRITE, body=DeployComposeIn, out=answers.Deployed)
@admin.doc(**answers.FAILS)
def deploy_compose_to_any(body, instance_id):
    """Deploy what a compose file says.

    Refusals are those of the user API. Give the file or its https address. The task starts what it says; 422 for a file
    that cannot be read, 422 `port_taken` for a host port that another app has.
    """
    kit.say(answers.DEPLOYS)
    return answers.composed(found(instance_id, True), body, True)


@admin.post(f"{PATH}/install", op="docker_install", can=WRITE, out=answers.Asked)
@admin.doc(**answers.FAILS)
def install_in_any(instance_id):
    """Install Docker in the guest, by its guest agent.

    Refusals are those of the user API. 422 `already_installed` where Docker is there, 422 `not_running` for an instance
    that is off. A failed installation is told as `docker_error`.
    """
    kit.say(answers.INSTALLS)
    return answers.installed(found(instance_id, True), True)


@admin.get(f"{PATH}/apps", op="docker_apps", can=READ, out=DockerAppOut(many=True))
def catalog_for_any(instance_id):
    """List the apps that can be deployed with one call, with the variables of each.

    The catalog is the same for every instance.
    """
    found(instance_id, True)
    return docker_apps.listing()


@admin.get(f"{PATH}/app/<app_slug>", op="docker_app", can=READ, out=DockerAppOut)
def catalog_app_for_any(instance_id, app_slug):
    """Show an app of the catalog.

    With the variables that it takes and the ports that it opens. 404 for an app that the catalog does not have.
    """
    found(instance_id, True)
    return docker_apps.get(app_slug)


@admin.get(f"{ONE}/logs", op="docker_logs", can=WRITE, out=DockerLogsOut, writes=True)
def logs_of_any(instance_id, deployment_id):
    """Read what the app's containers wrote last, in the guest.

    Logs may hold secrets, so it takes the right to write.
    """
    return answers.wrote(docker_logs.read(one(instance_id, deployment_id, True)))


@admin.get(f"{ONE}/cached-logs", op="docker_cached_logs", can=WRITE, out=DockerLogsOut)
def cached_logs_of_any(instance_id, deployment_id):
    """Show what the app's containers wrote, as it was read last.

    It takes the right to write, as reading them does. Empty when nobody read them yet. Nothing is asked of the guest.
    """
    return answers.wrote(one(instance_id, deployment_id, True))


@admin.post(f"{ONE}/check-status", op="docker_check_status", can=WRITE, out=answers.Asked)
@admin.doc(**answers.FAILS)
def check_status_of_any(instance_id, deployment_id):
    """Have the state of an app looked at in the guest.

    The task writes what it finds to the app's row; one that is under way already is answered again. Refused while the
    guest cannot be reached: 409 `agent_unavailable`, 422 `not_running`, 503 `hypervisor_unreachable`.
    """
    kit.say(answers.LOOKS)
    return answers.looked(one(instance_id, deployment_id, True), True)


@admin.post(f"{ONE}/retry", op="docker_retry", can=WRITE, out=answers.Deployed)
@admin.doc(**answers.FAILS)
def retry_any(instance_id, deployment_id):
    """Deploy an app once more, with what it was deployed with.

    For an app whose deployment failed. The row keeps its id. Refusals are those of the user API.
    """
    kit.say(answers.DEPLOYS)
    return answers.retried(one(instance_id, deployment_id, True), True)


@admin.post(f"{ONE}/<app_action>", op="docker_control", can=WRITE, out=answers.Removed)
@admin.doc(**answers.FAILS)
def control_any(instance_id, deployment_id, app_action):
    """Start, stop, restart or remove an app.

    Refusals are those of the user API. An action that is not one of the four answers 404. `remove` does what DELETE
    does. 409 `not_deployed` for an app whose deployment failed.
    """
    message, answer = answers.controlled(one(instance_id, deployment_id, True), app_action, True)
    kit.say(message)
    return answer


@admin.delete(ONE, op="docker_delete", can=WRITE, out=answers.Removed)
def delete_any(instance_id, deployment_id):
    """Remove an app.

    Its containers are removed in the guest then, or when the guest is reached again. The row is gone at once, and open
    tasks of the app are cancelled. Data in its volumes stays in the guest. `task_id` is null while the guest cannot be
    reached.
    """
    message, answer = answers.removed(one(instance_id, deployment_id, True), True)
    kit.say(message)
    return answer
