"""Suspending and unsuspending an instance."""

from marshmallow import fields

from api import kit
from api.instances import admin
from panel.schemas.base import describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.services import instances

OPTIONAL_TASK = kit.Schema.from_dict(
    {
        "task_id": fields.String(
            allow_none=True, **describe("The task to poll; null if nothing had to be changed.", EXAMPLE_ID)
        )
    },
    name="InstanceWork",
)


@admin.post("/instance/<instance_id>/state/suspend", op="suspend", can="admin:instances:write", out=OPTIONAL_TASK)
def suspend(instance_id):
    """Suspend an instance.

    Its state is `suspended` immediately. It is asked to shut down, and powered off if it has not done so after two
    minutes. Its owner cannot start it. There is no task if it is already suspended; a suspension by the owner becomes
    one by the platform.
    """
    task = instances.suspend(instances.get(instance_id), reason="admin", actor=kit.get_current_actor())
    kit.set_message(instances.ACTIONS["suspend"].result_message(task))
    return {"task_id": task and task.id}


@admin.post("/instance/<instance_id>/state/resume", op="resume", can="admin:instances:write", out=OPTIONAL_TASK)
def resume(instance_id):
    """End the suspension of an instance.

    An instance that was running is started again by the task. Does nothing, without a task, if the instance is not
    suspended.
    """
    task = instances.unsuspend(instances.get(instance_id), actor=kit.get_current_actor())
    kit.set_message(instances.ACTIONS["unsuspend"].result_message(task))
    return {"task_id": task and task.id}
