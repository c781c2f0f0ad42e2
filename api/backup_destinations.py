"""Destinations of backups, for operators."""

from api import kit
from panel.schemas.backup_destinations import (
    BackupDestinationIn,
    BackupDestinationOut,
    BackupDestinationPatch,
    DestinationCheckOut,
    DestinationCreated,
    FingerprintIn,
    FingerprintOut,
)
from panel.services import backup_destinations, hypervisors
from panel.web.audit_view import audit_label
from panel.workflows import destination_check, fingerprint_probe

admin = kit.Admin("backup_storage", __name__, description="Backup destinations")

READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"
DESTINATION_PATH = "/hypervisor/backup-storage/<destination_id>"


@admin.get(
    "/hypervisor/backup-storages",
    op="list",
    can=READ_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(BackupDestinationOut),
)
def listing():
    """List the backup destinations.

    Sorted by name. `config` is never returned.
    """
    return kit.paginate(backup_destinations.listing())


@admin.get(
    "/hypervisor/<hypervisor_id>/backup-storages",
    op="list_by_hypervisor",
    can=READ_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(BackupDestinationOut),
)
def list_by_hypervisor(hypervisor_id):
    """List the backup destinations of a hypervisor.

    The first enabled one gets its new backups. Those assigned to this hypervisor come first, then those of all
    hypervisors, each group from old to new.
    """
    return kit.paginate(backup_destinations.select_for_hypervisor(hypervisors.get(hypervisor_id)))


@admin.post(
    "/hypervisor/backup-storages",
    op="create",
    can=WRITE_PERMISSION,
    body=BackupDestinationIn,
    out=DestinationCreated,
)
def create(body):
    """Add a backup destination.

    A worker checks it immediately; see `status`. Every account gets a repository of its own in it, encrypted with a key
    of its own. Returns 422 for a name that is taken, and for an unknown hypervisor.
    """
    destination = backup_destinations.create(**body)
    kit.set_message("Backup destination created. A worker checks it.")
    return {"storage_id": destination.id}


@admin.post(
    "/hypervisor/backup-storages/fingerprint",
    op="read_fingerprint",
    can=WRITE_PERMISSION,
    body=FingerprintIn,
    out=FingerprintOut,
)
@audit_label("Read fingerprint of backup server")
def read_fingerprint(body):
    """Read the certificate fingerprint of a backup server.

    A worker connects without credentials. Compare the result with the one that the server shows before you store it.
    Returns 422 if the server cannot be reached, and 503 if no worker answers within 10 seconds.
    """
    return {"fingerprint": fingerprint_probe.run(**body, actor=kit.get_current_actor())}


@admin.get(DESTINATION_PATH, op="get", can=READ_PERMISSION, out=BackupDestinationOut)
def show(destination_id):
    """Get a backup destination.

    `config` is never returned. Returns 404 if the destination does not exist.
    """
    return backup_destinations.get(destination_id)


@admin.patch(DESTINATION_PATH, op="update", can=WRITE_PERMISSION, body=BackupDestinationPatch, out=BackupDestinationOut)
def update(body, destination_id):
    """Update a backup destination.

    Only the fields you send are changed. Backups that exist are not moved when the directory changes: move its content
    first.
    """
    destination = backup_destinations.update(backup_destinations.get(destination_id), **body)
    kit.set_message("Backup destination updated.")
    return destination


@admin.delete(DESTINATION_PATH, op="delete", can=WRITE_PERMISSION)
def delete(destination_id):
    """Remove a backup destination from the panel.

    Nothing in its storage is deleted. Its keys are, so what is left there can no longer be read. Returns 409
    `destination_in_use` while backups are stored there.
    """
    backup_destinations.delete(backup_destinations.get(destination_id))
    kit.set_message("Backup destination removed.")


@admin.post(f"{DESTINATION_PATH}/test", op="test", can=WRITE_PERMISSION, out=DestinationCheckOut)
@audit_label("Test backup destination")
def test(destination_id):
    """Test a backup destination.

    A worker checks that it reaches the storage and may write to it; of a backup server its certificate, the API token,
    the namespace and the token's privileges. The result has the steps up to the first that failed. Returns 503 if no
    worker answers within 10 seconds.
    """
    destination = destination_check.run(backup_destinations.get(destination_id))
    return {
        "passed": destination.status == "available",
        "checked_at": destination.checked_at,
        "check_steps": destination.check_steps,
    }
