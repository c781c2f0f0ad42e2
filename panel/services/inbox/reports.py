"""Reports of single changes, recorded in their transaction."""

from datetime import timedelta

from sqlalchemy import select

from panel.core import clock
from panel.core.db import generate_id, session
from panel.core.messages import Message, message
from panel.core.task_kinds import task_label
from panel.models import Account, AlertEvent, Instance, Member, Task
from panel.services.inbox.recording import Report, record

LONG_TASK_DURATION = timedelta(minutes=5)
"""Tasks that took longer are reported when they are done."""
BACKUP_TASK_KINDS = ("backup_create", "backup_copy", "volume_backup")


def is_worth_reporting(task: Task) -> bool:
    """Return whether the end of the task is reported to customers."""
    if task.account_id is None:
        return False
    return task.status == "failed" or (task.status == "completed" and is_long(task))


def is_long(task: Task) -> bool:
    return task.started_at is not None and clock.now() - task.started_at >= LONG_TASK_DURATION


def report_task(task: Task) -> None:
    """Report a task that failed, or that took long. Tasks that the platform repeats are reported once a day."""
    label, name = Message(task_label(task.kind)), find_name(task)
    has_failed = task.status == "failed"
    if has_failed:
        text = message("{task} of {name} failed: {error}", task=label, name=name, error=task.error or "")
    else:
        text = message("{task} of {name} is done.", task=label, name=name)
    is_repeated = task.actor == "system"
    cause = f"{task.kind}:{task.resource_id}:{clock.now():%Y-%m-%d}" if is_repeated else task.id
    report = Report(
        kind=choose_kind(task, has_failed),
        key=f"task:{task.status}:{cause}",
        account_id=task.account_id or "",
        text=text,
        severity="error" if has_failed else "info",
        path=f"/tasks/{task.id}",
        resource_type=task.resource_type,
        resource_id=task.resource_id,
    )
    record([report])


def find_name(task: Task) -> str:
    """Return the name that customers gave the instance, or the one of the task's resource."""
    query = select(Instance.display_name).where(Instance.id == task.resource_id)
    return session.scalar(query) or task.resource_name or task.resource_id


def choose_kind(task: Task, has_failed: bool) -> str:
    if not has_failed:
        return "task_long"
    return "backup" if task.kind in BACKUP_TASK_KINDS else "task_failed"


def build_alert_report(event: AlertEvent, account_id: str, rule_name: str) -> Report:
    """Return the report of an alert that began."""
    return Report(
        kind="alert",
        key=f"alert:{event.id}",
        account_id=account_id,
        text=message("Alert {rule}: {name}", rule=rule_name, name=event.resource_name),
        severity="warning",
        path=f"/alert-rules/{event.rule_id}",
        resource_type="instance",
        resource_id=event.resource_id,
    )


def report_security_event(account: Account, sentence: str, *, ip: str, browser: str) -> None:
    """Report a change of the account's security, or a sign-in. `sentence` has no full stop."""
    report = Report(
        kind="security",
        key=f"security:{generate_id()}",
        account_id=account.id,
        text=message("{sentence}. From {ip}, {browser}.", sentence=sentence, ip=ip, browser=browser),
        severity="warning",
        path="/profile/security",
        is_personal=True,
        has_own_mail=True,
    )
    record([report])


def report_invitation(member: Member, account_id: str) -> None:
    """Report an invitation to the person with this account. The link that accepts it is in the mail only."""
    report = Report(
        kind="team",
        key=f"invitation:{member.id}:{member.invited_at.isoformat()}",
        account_id=account_id,
        text=message("{email} invites you to their team. The link is in your mail.", email=member.owner.email),
        is_personal=True,
        has_own_mail=True,
    )
    record([report])


def report_new_member(member: Member) -> None:
    report = Report(
        kind="team",
        key=f"joined:{member.id}",
        account_id=member.owner_id,
        text=message("{email} joined your team.", email=member.email),
        path="/team",
    )
    record([report])
