"""Deploy, power actions, destroy, and the tasks of an instance."""

from marshmallow import fields

from api import kit
from api.instances import user
from api.instances.customer import get_own_instance
from panel.schemas.base import describe
from panel.schemas.instances import DeployIn
from panel.schemas.tasks import TaskLogOut, TaskOut, TaskQuery
from panel.services import instances, tasks

TASK_ID = fields.String(**describe("The task to poll.", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"))
PASSWORD_FIELD = fields.String(**describe("Root password, if one was generated. Shown only once.", "kX2v…"))


@user.post(
    "/instance/<instance_id>/deploy",
    op="deploy",
    can="instances.manage",
    body=DeployIn,
    out=kit.build_result_schema(task_id=TASK_ID, password=PASSWORD_FIELD),
)
def deploy(body, instance_id):
    """Deploy an image to an instance.

    This is the second step after creating an instance. Poll the task until it is `completed` or `failed`; a failed
    deployment can be repeated. With SSH keys and without a password, no password is generated. Returns 409
    `task_running` while another task is in progress, and 409 `already_deployed` if the instance already has an
    operating system: use `reinstall` to replace it, which deletes all data on the first disk.
    """
    task, password = instances.deploy(
        get_own_instance(instance_id), account=kit.get_current_access(), actor=kit.get_current_actor(), **body
    )
    answer = {"message": "Deployment requested.", "task_id": task.id}
    return {**answer, "password": password} if password else answer


def add_power_route(action, summary):
    def act(instance_id):
        task = instances.run_power_action(get_own_instance(instance_id), action, actor=kit.get_current_actor())
        return {"message": instances.ACTIONS[action].result_message(task), **({"task_id": task.id} if task else {})}

    act.__doc__ = summary
    path = f"/instance/<instance_id>/power/{action}"
    user.post(path, op=action, can="instances.power", out=kit.build_result_schema(task_id=TASK_ID))(act)


POWER_REFUSALS = "Returns 409 `not_deployed`, `suspended` or `task_running`."
POWER_SUMMARIES = {
    "start": f"Start an instance.\n\nDoes nothing if it is running. {POWER_REFUSALS}",
    "stop": (
        "Stop an instance.\n\nThe guest is asked to shut down, and powered off if it has not done so after two "
        f"minutes. {POWER_REFUSALS}"
    ),
    "shutdown": f"Ask the guest to shut down.\n\nIt keeps running if it ignores the request. {POWER_REFUSALS}",
    "restart": f"Restart an instance.\n\nReturns 409 `not_running` if it is off. {POWER_REFUSALS}",
    "poweroff": f"Power off an instance immediately.\n\nUnsaved data in the guest is lost. {POWER_REFUSALS}",
}
for action, summary in POWER_SUMMARIES.items():
    add_power_route(action, summary)


@user.delete(
    "/cloud-service/instances/<instance_id>",
    op="delete",
    can="instances.delete",
    out=kit.build_result_schema(task_id=TASK_ID),
)
def destroy(instance_id):
    """Destroy an instance with its disks.

    Poll the instance until it returns 404. Returns 409 `protection_enabled` while delete protection is on, and 409
    `suspended` unless the owner suspended the instance.
    """
    task = instances.destroy(get_own_instance(instance_id, even_suspended=True), actor=kit.get_current_actor())
    return {"message": instances.ACTIONS["destroy"].done_message, "task_id": task.id}


@user.get(
    "/instance/<instance_id>/tasks",
    op="tasks",
    can="instances.view",
    query=TaskQuery,
    out=kit.build_page_schema(TaskOut),
)
def listing(query, instance_id):
    """List the tasks of an instance, newest first."""
    return kit.paginate(tasks.listing(kit.get_current_access(), resource_id=get_own_instance(instance_id).id, **query))


@user.get(
    "/instance/<instance_id>/task/<task_id>",
    op="task",
    can="instances.view",
    out=kit.Schema.from_dict(
        {
            "task": fields.Nested(TaskOut, **describe("The task.")),
            "logs": fields.List(fields.Nested(TaskLogOut), **describe("Log lines, oldest first.")),
        },
        name="TaskWithLogs",
    ),
)
def show_task(instance_id, task_id):
    """Get a task of an instance with its log.

    Still available after the instance is destroyed.
    """
    task = tasks.get(task_id, kit.get_current_access(), resource_id=instance_id)
    return {"task": task, "logs": task.logs}
