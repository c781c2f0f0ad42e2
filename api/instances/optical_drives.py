"""Optical drives: mounting and ejecting ISOs, in both dialects."""

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from api.instances.suspension import OPTIONAL_TASK
from panel.core.errors import Invalid, NotFound
from panel.schemas.base import Empty, In, Text, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.services import instances, isos
from panel.workflows import reachability

ACTION_BY_VERB = {"mount": "mount", "insert": "mount", "unmount": "unmount", "eject": "unmount"}
INSERTING_MESSAGE, EJECTING_MESSAGE, ALREADY_EMPTY_MESSAGE = (
    "Insertion requested.",
    "Ejection requested.",
    "The drive is already empty.",
)


class Mount(In):
    iso_id = Text(maximum=36, allow_none=True, **describe("The ISO.", EXAMPLE_ID))
    iso_url = Text(
        maximum=2000,
        **describe("An https URL instead of an id: it is added to your own ISOs.", "https://…"),
    )
    custom_iso = fields.Raw(**describe("Accepted for compatibility; clients send 1 with `iso_url`.", 1))


def insert_iso(instance, slot, body, account=None):
    """Mount the ISO of the body (`iso_id` or `iso_url`) and return the task. `account` is None for operators."""
    if not body.get("iso_id") and not body.get("iso_url"):
        raise Invalid("The ISO is missing.", iso_id="Choose an ISO.")
    if body.get("iso_id"):
        iso = isos.get_chosen(body["iso_id"], account)
    else:
        iso = isos.get_or_create_by_url(body["iso_url"], account or instance.account, actor=kit.get_current_actor())
    reachability.check_node(instance.hypervisor)
    return instances.mount(instance, slot, iso, actor=kit.get_current_actor(), by_operator=account is None)


def empty_drive(instance, slot, by_operator=False):
    reachability.check_node(instance.hypervisor)
    return instances.unmount(instance, slot, actor=kit.get_current_actor(), by_operator=by_operator)


def get_verb(action):
    if action not in ACTION_BY_VERB:
        raise NotFound("No such action. Use mount or unmount.")
    return ACTION_BY_VERB[action]


def build_answer(task, sentence):
    return {"message": sentence, "task_id": task.id} if task else {"message": ALREADY_EMPTY_MESSAGE}


@user.post(
    "/instance/<instance_id>/iso/<slot>/mount",
    op="iso_mount",
    can="instances.manage",
    body=Mount,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def mount(body, instance_id, slot):
    """Mount an ISO in a drive.

    `slot` is `primary` or `secondary`. A running guest sees it immediately, a stopped one at its next start. An ISO
    that is already in the drive is replaced. Returns 422 `iso_url_not_https`, 503 `hypervisor_unreachable`, 409
    `suspended` or `task_running`.
    """
    return build_answer(
        insert_iso(get_own_instance(instance_id), slot, body, kit.get_current_access()), INSERTING_MESSAGE
    )


@user.post(
    "/instance/<instance_id>/iso/<slot>/unmount",
    op="iso_unmount",
    can="instances.manage",
    body=Empty,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def unmount(body, instance_id, slot):
    """Eject the ISO from a drive, even if the guest has locked it.

    The ISO fields of the instance are null immediately. With 503 `hypervisor_unreachable` they are not changed.
    """
    return build_answer(empty_drive(get_own_instance(instance_id), slot), EJECTING_MESSAGE)


@user.post(
    "/instance/<instance_id>/iso/<device>/<action>",
    op="iso_action",
    can="instances.manage",
    body=Mount,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def run_action(body, instance_id, device, action):
    """Mount or eject an ISO.

    The same as the operations for mounting and unmounting; `action` is `mount` or `insert`, `unmount` or `eject`.
    """
    instance = get_own_instance(instance_id)
    if get_verb(action) == "unmount":
        return build_answer(empty_drive(instance, device), EJECTING_MESSAGE)
    return build_answer(insert_iso(instance, device, body, kit.get_current_access()), INSERTING_MESSAGE)


@admin.post(
    "/instance/<instance_id>/iso/<device>/<action>",
    op="iso_action",
    can="admin:instances:write",
    body=Mount,
    out=OPTIONAL_TASK,
)
def admin_run_action(body, instance_id, device, action):
    """Mount or eject an ISO.

    `device` is `primary` or `secondary`; `action` is `mount` or `insert`, `unmount` or `eject`.
    """
    instance = instances.get(instance_id)
    if get_verb(action) == "unmount":
        task = empty_drive(instance, device, by_operator=True)
        kit.set_message(EJECTING_MESSAGE if task else ALREADY_EMPTY_MESSAGE)
    else:
        task = insert_iso(instance, device, body)
        kit.set_message(INSERTING_MESSAGE)
    return {"task_id": task and task.id}
