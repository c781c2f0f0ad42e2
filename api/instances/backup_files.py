"""Reading single files of a backup."""

from marshmallow import fields

from api import kit
from api.instances import user
from api.instances.backups import BACKUP_PATH, get_own_backup
from api.instances.customer import get_own_instance
from panel.core.errors import Conflict
from panel.schemas.backup_files import BackupFileDownloadQuery, BackupFileOut, BackupFileSessionOut, BackupFilesQuery
from panel.schemas.base import describe
from panel.services import backup_files
from panel.web.audit_view import audit_label
from panel.web.file_download import build_file_response
from panel.workflows import backup_files as workflow

FILES_PERMISSION = "instances.restore"
"""Who may restore sees what is in a backup."""

SESSION_RESPONSE = kit.build_wrapped_schema("session", BackupFileSessionOut)
FILE_LIST = kit.Done.from_dict(
    {
        "files": fields.List(fields.Nested(BackupFileOut), **describe("The entries, sorted by name.")),
        "next": fields.String(allow_none=True, **describe("`after` of the next part; null at the end.", None)),
    },
    name="BackupFileList",
)()


@user.post(f"{BACKUP_PATH}/files/session", op="open_backup_files", can=FILES_PERMISSION, out=SESSION_RESPONSE)
@audit_label("Open files of backup")
def open_files(instance_id, backup_id):
    """Open the files of a backup.

    The disks of the backup are copied to the instance's hypervisor, and a machine without a network reads their file
    systems: ext2 to ext4, XFS, Btrfs, FAT, exFAT, NTFS and ISO 9660, also on LVM. This takes as long as a restore; the
    state is `ready` then. A session ends 30 minutes after its last use and at the latest after 4 hours. Opening an open
    backup changes nothing.

    Returns 422 `not_supported`, `backup_not_complete`, `backup_missing`, `backup_too_large` (over 200 GiB in use) or
    `storage_not_sufficient`, 409 `suspended`, `backup_being_deleted`, `session_limit_reached` (2 for an account),
    `hypervisor_backup_busy`, `image_not_available` or `task_running`, and 503 `hypervisor_unreachable`.
    """
    instance, backup = get_own_instance(instance_id), get_own_backup(instance_id, backup_id)
    row = backup_files.open_session(instance, backup, actor=kit.get_current_actor())
    return {"message": "The files are being opened." if row.state == "preparing" else None, "session": row}


@user.get(f"{BACKUP_PATH}/files/session", op="backup_files_session", can=FILES_PERMISSION, out=SESSION_RESPONSE)
def show_session(instance_id, backup_id):
    """Get the state of a backup's files.

    Returns 409 `files_not_open` without a session.
    """
    row = backup_files.find_of_backup(get_own_backup(instance_id, backup_id))
    if row is None:
        raise Conflict("The files of the backup are not open.", reason="files_not_open")
    return {"message": None, "session": row}


@user.delete(
    f"{BACKUP_PATH}/files/session", op="close_backup_files", can=FILES_PERMISSION, out=kit.build_result_schema()
)
@audit_label("Close files of backup")
def close_files(instance_id, backup_id):
    """Close the files of a backup.

    The machine, the copies of the disks and prepared downloads are deleted. Nothing happens without a session.
    """
    backup_files.close(get_own_backup(instance_id, backup_id), actor=kit.get_current_actor())
    return {"message": "The files are being closed."}


@user.get(
    f"{BACKUP_PATH}/files",
    op="backup.files",
    can=FILES_PERMISSION,
    query=BackupFilesQuery,
    out=FILE_LIST,
    writes=True,
)
@audit_label("List files of backup")
def list_files(query, instance_id, backup_id):
    """List a folder of a backup.

    Open the files first. `/` has a folder for each file system. Links are not followed. At most 500 entries are
    returned; `next` is the `after` of the following request. Returns 409 `files_not_open` or `files_not_ready`, 404
    `not_found`, 422 `not_a_folder`, `is_a_link` or `unreadable` (the file system is damaged there), and 503
    `files_not_ready` when the answer takes long: send the request again.
    """
    row = backup_files.get_ready(get_own_backup(instance_id, backup_id))
    path = query["filepath"].strip("/")
    result = workflow.list_files(row, path, query["after"]).result
    entries = [describe_entry(path, entry) for entry in result["entries"]]
    return {"message": None, "files": entries, "next": result["entries"][-1]["name"] if result["has_more"] else None}


def describe_entry(folder, entry):
    path = "/".join(filter(None, (folder, entry["name"])))
    is_folder = entry["type"] == "folder"
    return {
        "filepath": f"/{path}",
        "type": "d" if is_folder else "f",
        "kind": entry["type"],
        "size": entry["size"],
        "modified_at": entry["modified_at"],
        "target": entry.get("target"),
    }


@user.get(
    f"{BACKUP_PATH}/files/download",
    op="download_backup_file",
    can=FILES_PERMISSION,
    query=BackupFileDownloadQuery,
    out=kit.FILE_RESPONSE,
    writes=True,
)
@audit_label("Download from backup")
def download(query, instance_id, backup_id):
    """Download a file or a folder of a backup.

    A folder is sent as a tar archive: links are stored as links, devices, pipes and sockets are left out. A download
    has at most 4 GiB. Returns 503 `download_not_ready` while it is being prepared: send the same request again. Further
    errors are those of the list, 409 `task_running` while another download is prepared, 409 `download_limit_reached`,
    and 422 `too_large`.
    """
    row = backup_files.get_ready(get_own_backup(instance_id, backup_id))
    request = workflow.fetch_download(row, query["filepath"], actor=kit.get_current_actor())
    return build_file_response(row, request)
