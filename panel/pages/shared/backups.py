"""What the pages of backups have in common in both areas."""

from panel.pages.shared import followed_tasks
from panel.services import backup_policies, backup_restore_tests, instance_backups
from panel.web.translation import gettext as _
from panel.web.translation import ngettext


def build_rows_context(backups):
    """Return what the rows of these backups show."""
    return {
        "restore_tests": backup_restore_tests.map_latest(backup.id for backup in backups),
        "backup_tasks": instance_backups.map_open_tasks(backups),
        "policy_names": backup_policies.map_names(backup.policy_id for backup in backups if backup.policy_id),
        "find_backup_errors": find_backup_errors,
        "has_changing_backups": any(
            backup.status == "creating" or backup.deletion in ("queued", "running") for backup in backups
        ),
    }


def find_volume_backup_errors(backup):
    """Return why each action on the backup of a volume is refused now, or None."""
    deleted = _("The backup is being deleted.") if backup.is_claimed else None
    incomplete = None if backup.created else _("The backup is not complete.")
    volume = backup.volume
    in_use = _("Detach the volume first.") if volume and volume.status != "available" else None
    gone = None if volume else _("The volume was deleted.")
    creating = _("The backup is not complete yet.") if backup.status == "creating" else None
    protected = _("The backup is protected.") if backup.protected else None
    return {
        "restore": deleted or incomplete or gone or in_use,
        "new_volume": deleted or incomplete,
        "delete": deleted or creating or protected,
    }


def find_backup_errors(backup):
    """Return why each action on the backup is refused now, or None."""
    deleted = _("The backup is being deleted.") if backup.is_claimed else None
    incomplete = None if backup.created else _("The backup is not complete.")
    gone = _("The instance was destroyed.") if backup.instance_deleted else _("The instance is in another account now.")
    without_instance = None if backup.instance else gone
    creating = _("The backup is not complete yet.") if backup.status == "creating" else None
    protected = _("Remove the protection first.") if backup.protected else None
    return {
        "restore": deleted or incomplete or without_instance,
        "image": deleted or incomplete,
        "protect": deleted,
        "delete": deleted or creating or protected,
        "retry": deleted or without_instance,
    }


def describe_deletion(results):
    """Return how many deletions were requested, how many were refused, and of how many the outcome is not known."""
    requested = sum(row["success"] for row in results)
    unconfirmed = sum(row.get("reason") == "delete_dispatch_unconfirmed" for row in results)
    sentences = (
        ngettext("Deletion requested for %(num)s backup.", "Deletion requested for %(num)s backups.", requested),
        followed_tasks.describe_refused(len(results) - requested - unconfirmed),
        followed_tasks.describe_unconfirmed(unconfirmed),
    )
    return " ".join(sentence for sentence in sentences if sentence)
