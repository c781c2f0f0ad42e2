"""Lists of folders."""

from typing import Any

from panel.core import jobs
from panel.core.db import on_commit
from panel.models import BackupFileRequest, BackupFileSession
from panel.services.backup_files.requests import get_or_add

PAGE_ENTRIES = 500
"""Entries of a folder in one list."""


def request_list(row: BackupFileSession, path: str, after: str = "") -> BackupFileRequest:
    """Return the request for a list, which a worker answers soon. That of the file systems has its answer at once."""
    path = path.strip("/")
    request, is_needed = get_or_add(row, "list", path, after)
    if not path and is_needed:
        request.status = "done"
        request.result = {"entries": [describe_volume(volume) for volume in row.volumes], "has_more": False}
    elif is_needed:
        request_id = request.id
        on_commit(lambda: jobs.enqueue_call("worker.tasks.backup_files.read_list", request_id))
    return request


def describe_volume(volume: dict[str, Any]) -> dict[str, Any]:
    """Return a file system as an entry of the list."""
    facts = {name: volume[name] for name in ("name", "size", "kind", "label", "error")}
    return {**facts, "type": "damaged" if volume["error"] else "folder", "modified_at": None}
