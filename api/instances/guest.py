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

PASSWORD_FIELD = fields.String(**describe("The new root password. Shown only once.", "kX2v…"))
PASSWORD_RESET_ANSWER = kit.Schema.from_dict({"password": PASSWORD_FIELD, "task_id": TASK_ID}, name="PasswordReset")
PASSWORD_SETTING_MESSAGE = "New root password requested."
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
    """Reset the root password of a running guest.

    The guest agent sets the password; poll the task. The guest's SSH settings for password sign-in are not changed. The
    request takes up to 10 seconds, because the panel checks hypervisor and guest agent first. Returns 409
    `not_running`, `suspended`, `not_deployed`, `task_running` (also while another reset is in progress) or
    `agent_unavailable` if the guest agent does not respond; 503 `hypervisor_unreachable` if the hypervisor does not
    respond. A refused reset changes nothing. If the response of the guest is lost, the task fails with the message that
    the outcome is unknown: either the old or the new password is valid.
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
    """Reset the root password of a running guest.

    The request takes up to 10 seconds, because the panel checks hypervisor and guest agent first. Returns 409
    `not_running`, `suspended`, `not_deployed`, `task_running` (also while another reset is in progress) or
    `agent_unavailable`; 503 `hypervisor_unreachable` if the hypervisor does not respond. A refused reset changes
    nothing.
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
    """Install SSH keys in a running guest.

    Their owners can then sign in as root; existing keys are kept. Returns the same errors as the reset of the root
    password.
    """
    instance = get_own_instance(instance_id)
    ssh_keys.get_chosen(body["key_ids"], kit.get_current_access(), body.get("key_field", "ssh_keys"))
    reachability.check_guest(instance)
    task = instances.push_keys(instance, account=kit.get_current_access(), actor=kit.get_current_actor(), **body)
    return {"message": "Installation of the keys requested.", "task_id": task.id}


@user.get(
    "/instance/<instance_id>/guest-ips",
    op="guest_ips",
    can="instances.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(GuestAddressOut),
)
def guest_ips(instance_id):
    """List the addresses reported by the guest agent.

    Returns the latest report; the agent is queried if there is none since the instance was started. Empty if the agent
    does not respond.
    """
    instance = get_own_instance(instance_id)
    page = list_reported(instance, "addresses")
    nic_names = {interface.mac: f"net{number}" for number, interface in enumerate(instance.interfaces)}
    for row in page["data"]:
        row.type, row.nic = f"ipv{row.family}", nic_names.get(row.mac)
    return page


@user.get(
    "/instance/<instance_id>/guest-filesystems",
    op="guest_filesystems",
    can="instances.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(GuestFilesystemOut),
)
def guest_filesystems(instance_id):
    """List the file systems of the guest and their usage.

    Returns the latest report of the guest agent; the agent is queried if there is none since the instance was started.
    Empty if the agent does not respond.
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
