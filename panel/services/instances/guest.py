"""Work inside a running guest through its agent, and what the agent reported last."""

import secrets
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import or_, select

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Account, GuestInfo, Instance, Rescue, Task
from panel.models.tasks import is_open
from panel.services import ssh_keys
from panel.services.access import Access
from panel.services.instances.actions import enqueue
from panel.services.state_machine import TASK_RUNNING, action_error, ensure_no_error, make_problem

task_kind("instance_reset_password", "Reset password")
task_kind("instance_ssh_key_inject", "SSH keys for the guest")


def reset_password(
    instance: Instance, *, actor: str, since: datetime, password: str | None = None, by_operator: bool = False
) -> tuple[Task, str]:
    """Set root's password, a generated one when none is given. Return the task and the password. Raise `task_running`
    while another reset is open, or when one was requested since `since`."""
    ensure_reachable(instance, "reset_password", by_operator=by_operator)
    session.execute(select(Instance.id).where(Instance.id == instance.id).with_for_update(key_share=True))
    query = select(Task.id).where(Task.resource_id == instance.id, Task.kind == "instance_reset_password")
    if session.scalar(query.where(or_(is_open(Task.status), Task.created_at >= since)).limit(1)):
        raise make_problem(TASK_RUNNING)
    password = password or secrets.token_urlsafe(12)
    return enqueue(instance, "reset_password", "light", actor=actor, secret=password), password


def push_keys(
    instance: Instance,
    *,
    key_ids: Sequence[str],
    actor: str,
    account: Access | Account | None = None,
    key_field: str = "ssh_keys",
) -> Task:
    """Add keys to root's authorized keys. Return the task."""
    if not key_ids:
        raise Invalid(message("No key was chosen."), ssh_keys=message("Choose at least one."))
    ensure_reachable(instance, "ssh_key_inject", by_operator=account is None)
    lines = [key.authorized_keys_line for key in ssh_keys.get_chosen(key_ids, account, key_field)]
    return enqueue(instance, "ssh_key_inject", "light", actor=actor, arguments={"ssh_keys": lines})


def guest_access_error(instance: Instance, action: str = "reset_password", *, by_operator: bool = False) -> str | None:
    """Return the reason why no work in the guest is possible now, or None. During rescue another system runs than the
    instance's own."""
    reason = action_error(instance, action, by_operator=by_operator)
    if reason is None and session.get(Rescue, instance.id) is not None:
        return "rescue_active"
    if reason is None and instance.hypervisor.status != "up":
        return "hypervisor_unreachable"
    return reason or ("agent_unavailable" if instance.agent_down else None)


def ensure_reachable(instance: Instance, action: str, *, by_operator: bool) -> None:
    """Raise when no work in the guest is possible: 503 when the node does not answer, so that the state is unknown."""
    ensure_no_error(guest_access_error(instance, action, by_operator=by_operator))


def find_guest_report(instance: Instance) -> GuestInfo | None:
    """Return what the guest agent reported last, or None. A reinstall deletes it."""
    return session.get(GuestInfo, instance.id)
