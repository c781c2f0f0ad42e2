"""Live-snapshot sessions of an instance, in both dialects."""

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from panel.schemas.base import describe
from panel.schemas.forges import ForgeIn, ForgeOut, ForgeState
from panel.services import forges, instances

FORGE_PATH = "/instance/<instance_id>/forge"
SESSION_FIELD = fields.Nested(ForgeOut, **describe("The live-snapshot session."))
FORGE_ANSWER = kit.build_result_schema(forge=SESSION_FIELD, task_id=TASK_ID)
ADMIN_FORGE_ANSWER = kit.Schema.from_dict({"forge": SESSION_FIELD, "task_id": TASK_ID}, name="ForgeWork")
REFUSALS_TEXT = """

Returns 409 with the first reason that applies: `suspended`, `task_running`, `not_running`, {}."""
ACTION_TEXTS = {
    "enable": (
        "Start a live-snapshot session.\n\nChanges to these disks are stored separately until they are committed or "
        "discarded. The guest keeps running." + REFUSALS_TEXT.format("`already_active`"),
        "Start of the session requested.",
    ),
    "commit": (
        "Commit the changes of the live-snapshot session.\n\nThe guest keeps running."
        + REFUSALS_TEXT.format("`no_active_session`, `session_creating`, `session_failed`"),
        "Commit of the changes requested.",
    ),
    "discard": (
        "Discard the changes of the live-snapshot session.\n\nThe guest is powered off and boots from its disks as "
        "they were when the session started."
        + REFUSALS_TEXT.format("`no_active_session`, `session_creating`, `session_failed`"),
        "Discard of the changes requested.",
    ),
}


@user.get(FORGE_PATH, op="forge", can="instances.view", out=ForgeState, aliases=(FORGE_PATH,))
def show_forge(instance_id):
    """Get the latest live-snapshot session of an instance.

    Also available without the prefix `/api`. A session that has ended is returned too.
    """
    return forges.describe_state(get_own_instance(instance_id))


@admin.get(FORGE_PATH, op="forge", can="admin:instances:read", out=ForgeState)
def admin_show_forge(instance_id):
    """Get the latest live-snapshot session of an instance.

    `active` is false and `session` is null if there is none. The instance object lists earlier sessions.
    """
    return forges.describe_state(instances.get(instance_id))


def build_answer(result, action):
    forge, task = result
    return {"message": ACTION_TEXTS[action][1], "forge": forge, "task_id": task.id}


def enable(body, instance_id):
    return build_answer(forges.enable(get_own_instance(instance_id), actor=kit.get_current_actor(), **body), "enable")


def admin_enable(body, instance_id):
    answer = build_answer(forges.enable(instances.get(instance_id), actor=kit.get_current_actor(), **body), "enable")
    kit.set_message(answer.pop("message"))
    return answer


enable.__doc__ = admin_enable.__doc__ = ACTION_TEXTS["enable"][0]
ENABLE_PATH, ENABLE_OP = f"{FORGE_PATH}/enable", "forge_enable"
user.post(ENABLE_PATH, op=ENABLE_OP, can="instances.manage", body=ForgeIn, out=FORGE_ANSWER, aliases=(ENABLE_PATH,))(
    enable
)
admin.post(ENABLE_PATH, op=ENABLE_OP, can="admin:instances:write", body=ForgeIn, out=ADMIN_FORGE_ANSWER)(admin_enable)


def add_ending_routes(action):
    def end(instance_id):
        return build_answer(
            getattr(forges, action)(get_own_instance(instance_id), actor=kit.get_current_actor()), action
        )

    def admin_end(instance_id):
        answer = build_answer(
            getattr(forges, action)(instances.get(instance_id), actor=kit.get_current_actor()), action
        )
        kit.set_message(answer.pop("message"))
        return answer

    end.__doc__ = admin_end.__doc__ = ACTION_TEXTS[action][0]
    path, op = f"{FORGE_PATH}/{action}", f"forge_{action}"
    user.post(path, op=op, can="instances.manage", out=FORGE_ANSWER, aliases=(path,))(end)
    admin.post(path, op=op, can="admin:instances:write", out=ADMIN_FORGE_ANSWER)(admin_end)


for action in ("commit", "discard"):
    add_ending_routes(action)
