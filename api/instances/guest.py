"""Operations in guests through the guest agent, and what the agent reported."""

from types import SimpleNamespace

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from panel.schemas.base import describe
from panel.schemas.guests import GuestAddressOut, GuestFilesystemOut, PushKeysIn, ResetPasswordIn
from panel.services import instances, ssh_keys, watched_instances
from panel.web.audit_view import audit_label
from panel.workflows import reachability

PASSWORD_FIELD = fields.String(**describe("The new password of root. Shown once.", "kX2v…"))
PASSWORD_RESET_ANSWER = kit.Schema.from_dict({"password": PASSWORD_FIELD, "task_id": TASK_ID}, name="PasswordReset")
PASSWORD_SETTING_MESSAGE = "The password is being set."
GUEST_FAILURES = {"responses": {409: "Conflict", 503: "Unavailable"}}


@user.post(
    "/instance/<instance_id>/reset-password",
    op="reset_password",
    can="instances.manage",
    body=ResetPasswordIn,
    out=kit.build_wrapped_schema("data", PASSWORD_RESET_ANSWER),
)
@user.doc(**GUEST_FAILURES)
def reset_password(body, instance_id):
    """Set a new password of root.

    The guest agent sets it in the running guest; poll the task. Whether ssh takes passwords is the guest's own setting
    and is not changed. Before it answers, the panel asks the node and the guest agent, for 10 seconds at most. Refused
    (409) with `not_running`, `suspended`, `not_deployed`, `task_running` (also while another reset is under way), or
    `agent_unavailable` when the guest agent does not answer; 503 `hypervisor_unreachable` when the node does not
    answer. A refused reset changes nothing, then or later. A task that fails because the answer to the change was lost
    says that the outcome is unknown: the old or the new password is valid.
    """
    instance = get_own_instance(instance_id)
    checked_at = reachability.check_guest(instance)
    task, password = instances.reset_password(instance, actor=kit.get_current_actor(), since=checked_at, **body)
    return {"message": PASSWORD_SETTING_MESSAGE, "data": {"password": password, "task_id": task.id}}


@admin.post(
    "/instance/<instance_id>/resetPassword",
    op="reset_password",
    can="admin:instances:write",
    body=ResetPasswordIn,
    out=PASSWORD_RESET_ANSWER,
)
@admin.doc(**GUEST_FAILURES)
def admin_reset_password(body, instance_id):
    """Set a new password of root.

    Before it answers, the panel asks the node and the guest agent, for 10 seconds at most. Refused (409) with
    `not_running`, `suspended`, `not_deployed`, `task_running` (also while another reset is under way) or
    `agent_unavailable`; 503 `hypervisor_unreachable` when the node does not answer. A refused reset changes nothing,
    then or later.
    """
    instance = instances.get(instance_id)
    checked_at = reachability.check_guest(instance, by_operator=True)
    task, password = instances.reset_password(
        instance, actor=kit.get_current_actor(), since=checked_at, by_operator=True, **body
    )
    kit.set_message(PASSWORD_SETTING_MESSAGE)
    return {"password": password, "task_id": task.id}


@user.post(
    "/instance/<instance_id>/ssh-keys",
    op="push_ssh_keys",
    can="instances.manage",
    body=PushKeysIn,
    out=kit.build_result_schema(task_id=TASK_ID),
)
@user.doc(**GUEST_FAILURES)
@audit_label("Add SSH keys")
def push_keys(body, instance_id):
    """Put SSH keys into a running guest.

    Their owners may then sign in as root; keys that are there already stay. Refused as the reset of a password is.
    """
    instance = get_own_instance(instance_id)
    ssh_keys.get_chosen(body["key_ids"], kit.get_current_access(), body.get("key_field", "ssh_keys"))
    reachability.check_guest(instance)
    task = instances.push_keys(instance, account=kit.get_current_access(), actor=kit.get_current_actor(), **body)
    return {"message": "The keys are being put into the guest.", "task_id": task.id}


@user.get(
    "/instance/<instance_id>/guest-ips",
    op="guest_ips",
    can="instances.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(GuestAddressOut),
)
def guest_ips(instance_id):
    """List the addresses that the guest itself reports.

    As its agent said last; one that said nothing since it was turned on is asked. Empty when its agent does not answer.
    """
    instance = get_own_instance(instance_id)
    page = list_reported(instance, "addresses")
    cards = {card.mac: f"net{number}" for number, card in enumerate(instance.interfaces)}
    for row in page["data"]:
        row.type, row.nic = f"ipv{row.family}", cards.get(row.mac)
    return page


@user.get(
    "/instance/<instance_id>/guest-filesystems",
    op="guest_filesystems",
    can="instances.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(GuestFilesystemOut),
)
def guest_filesystems(instance_id):
    """List the file systems of the guest and how full they are.

    As its agent said last; one that said nothing since it was turned on is asked. Empty when its agent does not answer.
    """
    return list_reported(get_own_instance(instance_id), "filesystems")


def list_reported(instance, attribute):
    """Return a page of one list of the guest report. Waits for a report when there is no recent one."""
    watched_instances.mark_watched(instance)
    reachability.wait_for_report(instance)
    report = instances.find_guest_report(instance)
    return kit.paginate_list(
        [SimpleNamespace(**values, reported_at=report.at) for values in getattr(report, attribute)] if report else []
    )
