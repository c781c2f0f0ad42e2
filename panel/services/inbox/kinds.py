"""The kinds of messages: what people call them, who may see them and where they go by default."""

from dataclasses import dataclass

from panel.core.messages import message


@dataclass(frozen=True)
class InboxKind:
    label: str
    description: str
    permission: str | None = None
    """What members of a team need to get messages about the team's resources. None: only the account itself gets
    them."""
    mail: bool = False
    """Whether the owner of the resources also gets them by mail unless the person chose otherwise. Members do not."""
    is_fixed: bool = False
    """Nobody can turn them off, because whoever took over an account would. They have mails of their own."""


KINDS = {
    "security": InboxKind(
        message("Security"),
        message("Sign-ins with an unknown browser, changes of your password, passkeys and second factor."),
        mail=True,
        is_fixed=True,
    ),
    "task_failed": InboxKind(
        message("Failed tasks"), message("A task on one of your resources failed."), "instances.view"
    ),
    "task_long": InboxKind(
        message("Finished long tasks"), message("A task that took more than 5 minutes is done."), "instances.view"
    ),
    "backup": InboxKind(
        message("Backups"),
        message("A backup failed, or an instance with a backup policy has no recent backup."),
        "instances.view",
        mail=True,
    ),
    "alert": InboxKind(
        message("Alerts"),
        message("An alert rule fires. Its notification channels get messages, too."),
        "monitoring.view",
    ),
    "traffic": InboxKind(
        message("Traffic"),
        message("An instance has used 80 % or all of this month's traffic."),
        "instances.view",
        mail=True,
    ),
    "balance": InboxKind(
        message("Balance"), message("Your credit lasts for a few days only or is used up."), "billing.view", mail=True
    ),
    "certificate": InboxKind(
        message("Certificates"), message("A certificate expires soon or has expired."), "certificates.view", mail=True
    ),
    "team": InboxKind(message("Team"), message("You were invited to a team, or somebody joined yours."), "team.manage"),
    "announcement": InboxKind(message("Announcements"), message("News and maintenance of the platform.")),
}
