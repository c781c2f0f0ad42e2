"""Rescue mode: booting another system to repair an instance, in both dialects."""

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from panel.schemas.base import Bool, In, Time, describe
from panel.services import instances
from panel.services.instances import rescue

STATE_FIELDS: dict[str, fields.Field] = {
    "active": fields.Boolean(**describe("Whether rescue mode is active.", True)),
    "since": Time(allow_none=True, **describe("When rescue mode was started.", "2026-01-02T03:04:05.678Z")),
    "username": fields.String(**describe("User name for rescue mode; only while it is active.", "root")),
    "password": fields.String(**describe("Password for rescue mode; only while it is active.", "kX2v…")),
}
SECRET_FIELDS = ("username", "password")


class RescueIn(In):
    enable = Bool(required=True, **describe("True starts rescue mode, false ends it.", True))


Shown = kit.with_optional(kit.Schema.from_dict(STATE_FIELDS, name="RescueSession"), SECRET_FIELDS)
Asked = kit.Schema.from_dict(
    {
        "task_id": fields.String(allow_none=True, **describe("The task; null if nothing had to be changed.", None)),
        **STATE_FIELDS,
    },
    name="RescueAsked",
)
kit.with_optional(Asked, SECRET_FIELDS)


def switch_rescue(instance, enable, by_operator=False):
    task = rescue.switch(instance, enable, actor=kit.get_current_actor(), by_operator=by_operator)
    return task, rescue.get_result_message(enable, task), rescue.describe_state(instance)


@user.get("/instance/<instance_id>/rescue", op="rescue_show", can="instances.manage", out=Shown)
def show(instance_id):
    """Get the rescue mode of an instance.

    Returns the object itself, without a wrapper. User name and password are only included while rescue mode is active.
    """
    return rescue.describe_state(get_own_instance(instance_id))


@user.post(
    "/instance/<instance_id>/rescue",
    op="rescue",
    can="instances.manage",
    body=RescueIn,
    out=kit.build_result_schema(task_id=TASK_ID, **STATE_FIELDS),
)
def switch(body, instance_id):
    """Start or end rescue mode.

    A stopped instance boots a small rescue system with the instance's own disks attached; sign in by SSH at the
    instance's address. The instance stays in rescue mode when it is stopped and started, until rescue mode is ended;
    then its own system is started again if it was running before. Returns 409 `suspended`, `task_running`,
    `not_deployed`, `not_stopped` or `rescue_unavailable`.
    """
    task, message, state = switch_rescue(get_own_instance(instance_id), body["enable"])
    return {"message": message, **({"task_id": task.id} if task else {}), **state}


@admin.get("/instance/<instance_id>/rescue", op="rescue_show", can="admin:instances:write", out=Shown)
def admin_show(instance_id):
    """Get the rescue mode of an instance, including the password.

    `username` and `password` are only included while rescue mode is active.
    """
    return rescue.describe_state(instances.get(instance_id))


@admin.post("/instance/<instance_id>/rescue", op="rescue", can="admin:instances:write", body=RescueIn, out=Asked)
def admin_switch(body, instance_id):
    """Start or end rescue mode.

    `enable: true` starts the instance from the rescue system; the GET operation returns its password. `enable: false`
    ends rescue mode. Returns 409 `not_stopped`, `suspended`, `not_deployed`, `task_running` or `rescue_unavailable`.
    """
    task, message, state = switch_rescue(instances.get(instance_id), body["enable"], by_operator=True)
    kit.set_message(message)
    return {"task_id": task and task.id, **state}
