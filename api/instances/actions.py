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
PASSWORD_FIELD = fields.String(**describe("Password of root, when one was made up. Shown once.", "kX2v…"))


@user.post(
    "/instance/<instance_id>/deploy",
    op="deploy",
    can="instances.manage",
    body=DeployIn,
    out=kit.build_result_schema(task_id=TASK_ID, password=PASSWORD_FIELD),
)
def deploy(body, instance_id):
    """Install an operating system.

    The second step of a create. Poll the task until it is `completed` or `failed`; a failed deploy can be sent again.
    With keys and no password, no password is made. Refused with `task_running` while another task works on the
    instance, with `already_deployed` when it has a system: a second deploy never replaces it. `reinstall` does, and
    loses what is on the first disk.
    """
    task, password = instances.deploy(
        get_own_instance(instance_id), account=kit.get_current_access(), actor=kit.get_current_actor(), **body
    )
    answer = {"message": "The instance is being deployed.", "task_id": task.id}
    return {**answer, "password": password} if password else answer


def add_power_route(action, summary):
    def act(instance_id):
        task = instances.run_power_action(get_own_instance(instance_id), action, actor=kit.get_current_actor())
        return {"message": instances.ACTIONS[action].result_message(task), **({"task_id": task.id} if task else {})}

    act.__doc__ = summary
    path = f"/instance/<instance_id>/power/{action}"
    user.post(path, op=action, can="instances.power", out=kit.build_result_schema(task_id=TASK_ID))(act)


POWER_REFUSALS = "Refused (409) with `not_deployed`, `suspended` or `task_running`."
POWER_SUMMARIES = {
    "start": f"Power on.\n\nDoes nothing to a running instance. {POWER_REFUSALS}",
    "stop": (
        f"Stop.\n\nAsks the guest to shut down and powers off when it has not done so in two minutes. {POWER_REFUSALS}"
    ),
    "shutdown": f"Ask the guest to shut down.\n\nA guest that does not obey goes on running. {POWER_REFUSALS}",
    "restart": f"Restart.\n\nRefused with `not_running` when it is off. {POWER_REFUSALS}",
    "poweroff": f"Power off at once.\n\nLike pulling the plug: unsaved data is lost. {POWER_REFUSALS}",
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

    Poll the instance until it answers 404. Refused with `protection_enabled`, and with `suspended` unless it is the
    owner who suspended it.
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
            "logs": fields.List(fields.Nested(TaskLogOut), **describe("What it said, oldest first.")),
        },
        name="TaskWithLogs",
    ),
)
def show_task(instance_id, task_id):
    """Show a task of an instance with what it said.

    Stays readable after the instance is gone.
    """
    task = tasks.get(task_id, kit.get_current_access(), resource_id=instance_id)
    return {"task": task, "logs": task.logs}
