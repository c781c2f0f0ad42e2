"""Live-snapshot sessions of an instance, in both dialects."""

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import mine
from panel.schemas.base import about
from panel.schemas.forges import ForgeIn, ForgeOut, ForgeState
from panel.services import forges, instances

PATH = "/instance/<instance_id>/forge"
SESSION = fields.Nested(ForgeOut, **about("The session."))
DONE = kit.done(forge=SESSION, task_id=TASK_ID)
MADE = kit.Schema.from_dict({"forge": SESSION, "task_id": TASK_ID}, name="ForgeWork")
REFUSALS = """

Refused with 409 and the first reason that holds: `suspended`, `task_running`, `not_running`, {}."""
TEXTS = {
    "enable": (
        "Begin a live-snapshot session.\n\nFrom now on what the guest writes to these disks lies beside them, until it "
        "is committed or discarded. The guest goes on running." + REFUSALS.format("`already_active`"),
        "The session is being created.",
    ),
    "commit": (
        "Keep what was written in the session.\n\nThe guest goes on running."
        + REFUSALS.format("`no_active_session`, `session_creating`, `session_failed`"),
        "The changes are being kept.",
    ),
    "discard": (
        "Throw away what was written in the session.\n\nThe guest is powered off and boots from its disks as they were "
        "when the session began." + REFUSALS.format("`no_active_session`, `session_creating`, `session_failed`"),
        "The changes are being thrown away.",
    ),
}


@user.get(PATH, op="forge", can="instances.view", out=ForgeState, also=(PATH,))
def forge(instance_id):
    """Show the live-snapshot session.

    Also served without the prefix `/api`. The latest session, also when it is over.
    """
    return forges.state(mine(instance_id))


@admin.get(PATH, op="forge", can="admin:instances:read", out=ForgeState)
def admin_forge(instance_id):
    """Show the live-snapshot session of an instance.

    `active` is false and `session` null when there is none. Earlier sessions are in the instance object.
    """
    return forges.state(instances.get(instance_id))


def answered(found, action):
    made, task = found
    return {"message": TEXTS[action][1], "forge": made, "task_id": task.id}


def enable(body, instance_id):
    return answered(forges.enable(mine(instance_id), actor=kit.actor(), **body), "enable")


def admin_enable(body, instance_id):
    answer = answered(forges.enable(instances.get(instance_id), actor=kit.actor(), **body), "enable")
    kit.say(answer.pop("message"))
    return answer


enable.__doc__ = admin_enable.__doc__ = TEXTS["enable"][0]
BEGIN, OP = f"{PATH}/enable", "forge_enable"
user.post(BEGIN, op=OP, can="instances.manage", body=ForgeIn, out=DONE, also=(BEGIN,))(enable)
admin.post(BEGIN, op=OP, can="admin:instances:write", body=ForgeIn, out=MADE)(admin_enable)


def ending(action):
    def end(instance_id):
        return answered(getattr(forges, action)(mine(instance_id), actor=kit.actor()), action)

    def admin_end(instance_id):
        answer = answered(getattr(forges, action)(instances.get(instance_id), actor=kit.actor()), action)
        kit.say(answer.pop("message"))
        return answer

    end.__doc__ = admin_end.__doc__ = TEXTS[action][0]
    path, op = f"{PATH}/{action}", f"forge_{action}"
    user.post(path, op=op, can="instances.manage", out=DONE, also=(path,))(end)
    admin.post(path, op=op, can="admin:instances:write", out=MADE)(admin_end)


for action in ("commit", "discard"):
    ending(action)
