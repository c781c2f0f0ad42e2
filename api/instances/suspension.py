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
            allow_none=True, **describe("The task to poll; null when nothing had to be done.", EXAMPLE_ID)
        )
    },
    name="InstanceWork",
)


@admin.post("/instance/<instance_id>/state/suspend", op="suspend", can="admin:instances:write", out=OPTIONAL_TASK)
def suspend(instance_id):
    """Suspend an instance.

    Its state is `suspended` at once. It is shut down, and powered off when it has not obeyed in two minutes; its owner
    cannot start it. When it is suspended already there is no task; a suspension by the owner becomes the platform's.
    """
    task = instances.suspend(instances.get(instance_id), reason="admin", actor=kit.get_current_actor())
    kit.set_message(instances.ACTIONS["suspend"].result_message(task))
    return {"task_id": task and task.id}


@admin.post("/instance/<instance_id>/state/resume", op="resume", can="admin:instances:write", out=OPTIONAL_TASK)
def resume(instance_id):
    """End the suspension of an instance.

    It gets back the power that it had. Without a suspension nothing is done and there is no task. An instance that was
    on is started again by the task.
    """
    task = instances.unsuspend(instances.get(instance_id), actor=kit.get_current_actor())
    kit.set_message(instances.ACTIONS["unsuspend"].result_message(task))
    return {"task_id": task and task.id}
