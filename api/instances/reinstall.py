"""Reinstalling, in both dialects."""

from api import kit
from api.instances import admin, user
from api.instances.actions import PASSWORD_FIELD, TASK_ID
from api.instances.admin_instances import DEPLOY_ANSWER
from api.instances.customer import get_own_instance
from panel.schemas.instances import ReinstallIn
from panel.services import instances

REINSTALLING_MESSAGE = "Reinstall requested."


@user.post(
    "/instance/<instance_id>/reinstall",
    op="reinstall",
    can="instances.manage",
    body=ReinstallIn,
    out=kit.build_result_schema(task_id=TASK_ID, password=PASSWORD_FIELD),
)
def reinstall(body, instance_id):
    """Reinstall an instance.

    All data on the first disk is lost; other disks, addresses and the plan are kept. SSH keys, scripts, `cloudcfg` and
    host keys of the previous system are not reused: only the values of this request apply. The previous system is kept
    until the new disk is complete. If the task fails before that, the previous system stays as it was; after a later
    failure the instance is `stopped` with `last_error`. Returns 409 `protection_enabled`, `suspended`, `task_running`
    or `not_deployed`.
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
    """Reinstall an instance.

    All data on the first disk is lost; addresses and volumes are kept. SSH keys and scripts of any account can be used.
    Returns 409 `protection_enabled`, `suspended`, `task_running`, `rescue_active`, `already_active` (a live-snapshot
    session) or `has_snapshots`.
    """
    task, password = instances.reinstall(instances.get(instance_id), actor=kit.get_current_actor(), **body)
    kit.set_message(REINSTALLING_MESSAGE)
    return {"task_id": task.id, **({"password": password} if password else {})}
