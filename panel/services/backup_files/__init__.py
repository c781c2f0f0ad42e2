"""Reading single files of backups, through a machine that has copies of the disks."""

from panel.services.backup_files.downloads import find_download, list_downloads, request_download
from panel.services.backup_files.listings import PAGE_ENTRIES, request_list
from panel.services.backup_files.requests import find_list, find_request, record_failed, record_result
from panel.services.backup_files.sessions import (
    FOLDER,
    MAX_DOWNLOAD_BYTES,
    close,
    close_due,
    ensure_openable,
    find_by_id,
    find_of_backup,
    find_task,
    get_ready,
    list_machine_ids,
    open_session,
    record_open_failed,
    record_ready,
    record_use,
)

__all__ = [
    "FOLDER",
    "MAX_DOWNLOAD_BYTES",
    "PAGE_ENTRIES",
    "close",
    "close_due",
    "ensure_openable",
    "find_by_id",
    "find_download",
    "find_list",
    "find_of_backup",
    "find_request",
    "find_task",
    "get_ready",
    "list_downloads",
    "list_machine_ids",
    "open_session",
    "record_failed",
    "record_open_failed",
    "record_ready",
    "record_result",
    "record_use",
    "request_download",
    "request_list",
]
