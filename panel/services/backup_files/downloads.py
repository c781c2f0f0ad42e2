"""Downloads: a worker prepares a file, which is then sent like any other."""

from collections.abc import Sequence

from sqlalchemy import func, select

from panel.core.db import session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import message
from panel.models import BackupFileRequest, BackupFileSession
from panel.services.backup_files.requests import get_or_add
from panel.services.backup_files.sessions import enqueue

MAX_SESSION_BYTES = 8 * 1024**3
"""Bytes of a session's downloads after which no other is prepared."""


def request_download(row: BackupFileSession, path: str, *, actor: str) -> BackupFileRequest:
    """Return the request for a file, or for a folder as a tar archive. One is prepared at a time: `task_running`."""
    path = path.strip("/")
    if not path:
        raise NotFound(message("Choose a file or a folder."), reason="not_found")
    request, is_needed = get_or_add(row, "download", path)
    if is_needed:
        ensure_below_limit(row)
        enqueue(row, "backup_files_download", lock="exclusive", actor=actor, request_id=request.id)
    return request


def ensure_below_limit(row: BackupFileSession) -> None:
    total = select(func.sum(BackupFileRequest.size)).where(BackupFileRequest.session_id == row.id)
    if (session.scalars(total).one() or 0) >= MAX_SESSION_BYTES:
        sentence = message("The maximum number of downloads is reached. Close the files and open them again.")
        raise Conflict(sentence, reason="download_limit_reached")


def list_downloads(row: BackupFileSession) -> Sequence[BackupFileRequest]:
    """Return the session's downloads, the newest first."""
    query = select(BackupFileRequest).where(
        BackupFileRequest.session_id == row.id, BackupFileRequest.kind == "download"
    )
    return session.scalars(query.order_by(BackupFileRequest.id.desc()).limit(20)).all()


def find_download(row: BackupFileSession, request_id: str) -> BackupFileRequest:
    """Return a download of the session that is ready."""
    query = select(BackupFileRequest).where(
        BackupFileRequest.id == request_id,
        BackupFileRequest.session_id == row.id,
        BackupFileRequest.kind == "download",
        BackupFileRequest.status == "done",
    )
    request = session.scalar(query)
    if request is None:
        raise NotFound(message("There is no such download."))
    return request
