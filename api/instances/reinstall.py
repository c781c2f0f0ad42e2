"""Reinstalling, in both dialects."""

from api import kit
from api.instances import admin, user
from api.instances.actions import PASSWORD_FIELD, TASK_ID
from api.instances.admin_instances import DEPLOY_ANSWER
from api.instances.customer import get_own_instance
from panel.schemas.instances import ReinstallIn
from panel.services import instances

REINSTALLING_MESSAGE = "The instance is being reinstalled."


@user.post(
    "/instance/<instance_id>/reinstall",
    op="reinstall",
    can="instances.manage",
    body=ReinstallIn,
    out=kit.build_result_schema(task_id=TASK_ID, password=PASSWORD_FIELD),
)
def reinstall(body, instance_id):
    """Install an operating system anew.

    Everything on the first disk is lost; further disks, addresses and the plan stay. Keys, scripts, `cloudcfg` and host
    keys of the earlier system do not come back: what is not sent now is not there. The old system is kept until the new
    one's disk is complete, so a failure before that leaves it as it was, running if it ran; after a later failure the
    instance is `stopped` with `last_error`. Refused with `protection_enabled`, `suspended`, `task_running`,
    `not_deployed`.
    """
    task, password = instances.reinstall(
        get_own_instance(instance_id), account=kit.get_current_access(), actor=kit.get_current_actor(), **body
    )
    answer = {"message": REINSTALLING_MESSAGE, "task_id": task.id}
    return {**answer, "password": password} if password else answer


@admin.post(
    "/instance/<instance_id>/reinstall",
    op="reinstall",
    can="admin:instances:write",
    body=ReinstallIn,
    out=DEPLOY_ANSWER,
)
def admin_reinstall(body, instance_id):
    """Install an operating system anew.

    Any account's keys and scripts may be named. Refused with `protection_enabled`. What is on the first disk is lost;
    addresses and volumes stay. Also refused (409) with `suspended`, `task_running`, `rescue_active`, `already_active`
    (a live session) or `has_snapshots`.
    """
    task, password = instances.reinstall(instances.get(instance_id), actor=kit.get_current_actor(), **body)
    kit.set_message(REINSTALLING_MESSAGE)
    return {"task_id": task.id, **({"password": password} if password else {})}
