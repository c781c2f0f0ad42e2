"""Backups of the installation itself, for operators."""

from api import kit
from panel.schemas.backup_destinations import DestinationCheckOut
from panel.schemas.installation_backups import (
    InstallationBackupIn,
    InstallationBackupOut,
    InstallationBackupQuery,
    InstallationBackupSettingsOut,
    InstallationBackupSettingsPatch,
    InstallationDestinationIn,
    InstallationDestinationOut,
    InstallationDestinationPatch,
)
from panel.services import backup_destinations, installation_backups
from panel.web.audit_view import audit_label
from panel.workflows import destination_check

admin = kit.Admin("installation_backup", __name__, description="Backups of the installation")

READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
DESTINATION_PATH, RUN_PATH = "/backups/destination/<destination_id>", "/backups/run/<run_id>"


@admin.get(
    "/backups/destinations",
    op="destinations",
    can=READ_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(InstallationDestinationOut),
)
def list_destinations():
    """List the destinations for backups of the installation.

    Sorted by name. `config` is never returned. Destinations for backups of instances are not among them.
    """
    return kit.paginate(installation_backups.select_destinations())


@admin.post(
    "/backups/destinations",
    op="create_destination",
    can=WRITE_PERMISSION,
    body=InstallationDestinationIn,
    out=InstallationDestinationOut,
)
@audit_label("Add backup destination")
def create_destination(body):
    """Add a destination for backups of the installation.

    A worker checks it immediately; see `status`. Returns 422 for a name that another backup destination has.
    """
    kit.set_message("Backup destination created. A worker checks it.")
    return installation_backups.create_destination(**body)


@admin.put(
    DESTINATION_PATH,
    op="update_destination",
    can=WRITE_PERMISSION,
    body=InstallationDestinationPatch,
    out=InstallationDestinationOut,
)
@audit_label("Change backup destination")
def update_destination(body, destination_id):
    """Update a destination for backups of the installation.

    Only the fields you send are changed. Backups that exist are not moved when the settings change: move the stored
    files first.
    """
    destination = backup_destinations.update(installation_backups.get_destination(destination_id), **body)
    kit.set_message("Backup destination updated.")
    return destination


@admin.delete(DESTINATION_PATH, op="delete_destination", can=WRITE_PERMISSION)
@audit_label("Remove backup destination")
def delete_destination(destination_id):
    """Remove a destination for backups of the installation.

    Returns 409 `destination_in_use` while it has runs, or the settings name it.
    """
    backup_destinations.delete(installation_backups.get_destination(destination_id))
    kit.set_message("Backup destination removed.")


@admin.post(f"{DESTINATION_PATH}/test", op="test_destination", can=WRITE_PERMISSION, out=DestinationCheckOut)
@audit_label("Test backup destination")
def test_destination(destination_id):
    """Test a destination for backups of the installation.

    A worker checks that it reaches the storage and may write to it. The result has the steps up to the first that
    failed. Returns 503 if no worker answers within 10 seconds.
    """
    destination = destination_check.run(installation_backups.get_destination(destination_id))
    return {
        "passed": destination.status == "available",
        "checked_at": destination.checked_at,
        "check_steps": destination.check_steps,
    }


@admin.get(
    "/backups/runs",
    op="runs",
    can=READ_PERMISSION,
    query=InstallationBackupQuery,
    out=kit.build_admin_page_schema(InstallationBackupOut),
)
def list_runs(query):
    """List the backups of the installation.

    Newest first. Failed runs are kept for 30 days.
    """
    return kit.paginate(installation_backups.listing(**query))


@admin.get(RUN_PATH, op="run", can=READ_PERMISSION, out=InstallationBackupOut)
def show_run(run_id):
    """Get a backup of the installation.

    Returns 404 if it does not exist, or was deleted.
    """
    return installation_backups.get(run_id)


@admin.delete(RUN_PATH, op="delete_run", can=WRITE_PERMISSION, out=InstallationBackupOut)
@audit_label("Delete backup of the installation")
def delete_run(run_id):
    """Delete a backup of the installation.

    A worker deletes the archive; the run disappears when the destination does not have it any more. If that fails,
    `error` says why, and workers try again every hour. Returns 409 `backup_running` for a run that has not ended.
    """
    run = installation_backups.get(run_id)
    installation_backups.request_deletion(run, actor=kit.get_current_actor())
    kit.set_message("Deletion requested.")
    return run


@admin.post(
    "/backups/runs/trigger",
    op="trigger_run",
    can=WRITE_PERMISSION,
    body=InstallationBackupIn,
    out=InstallationBackupOut,
)
@audit_label("Back up the installation")
def trigger_run(body):
    """Back up the installation now.

    A worker creates the backup; poll the run. Returns 409 `backup_running` while another one runs, `passphrase_missing`
    before a passphrase was set, and `destination_disabled`.
    """
    kit.set_message("Backup requested.")
    return installation_backups.start(**body, actor=kit.get_current_actor())


@admin.get("/backups/settings", op="settings", can=READ_PERMISSION, out=InstallationBackupSettingsOut)
def show_settings():
    """Get the schedule of backups of the installation.

    The passphrase is never returned.
    """
    return installation_backups.get_settings()


@admin.put(
    "/backups/settings",
    op="update_settings",
    can=WRITE_PERMISSION,
    body=InstallationBackupSettingsPatch,
    out=InstallationBackupSettingsOut,
)
@audit_label("Change backups of the installation")
def update_settings(body):
    """Update the schedule of backups of the installation.

    Only the fields you send are changed. Backups can be turned on when there are a destination and a passphrase.
    """
    kit.set_message("Settings updated.")
    return installation_backups.update_settings(**body)
