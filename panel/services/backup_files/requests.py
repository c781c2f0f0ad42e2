"""Requests for what a session's machine reads, and their results."""

import hashlib
from datetime import timedelta
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError

from panel.core import clock
from panel.core.db import session
from panel.core.messages import message
from panel.models import BackupFileRequest, BackupFileSession

RETRY_SECONDS = 15
"""A list without a result is requested again after so long: its notification may be lost."""

MAX_LISTS = 200
"""Lists of folders that are kept for a session."""

REASON_MESSAGES = {
    "not_found": message("There is no such file or folder in the backup."),
    "not_a_folder": message("This is not a folder."),
    "not_a_file": message("This is not a file."),
    "is_a_link": message("This is a symbolic link. Links are not followed."),
    "unreadable": message("This cannot be read. The file system in the backup is damaged here."),
    "too_large": message("This is larger than a download may be."),
}
STATUSES = {"not_found": 404}
"""HTTP statuses of the reasons; the others have 422."""


def make_digest(row: BackupFileSession, kind: str, path: str, after: str = "") -> str:
    return hashlib.sha256("\0".join((row.id, kind, path, after)).encode()).hexdigest()


def find_list(row: BackupFileSession, path: str, after: str = "") -> BackupFileRequest | None:
    """Return the request for the list of a folder, if there is one."""
    digest = make_digest(row, "list", path, after)
    return session.scalar(select(BackupFileRequest).where(BackupFileRequest.digest == digest))


def get_or_add(row: BackupFileSession, kind: str, path: str, after: str = "") -> tuple[BackupFileRequest, bool]:
    """Return the request, and whether it has to be made: it is new, has failed or has been waiting for long."""
    digest = make_digest(row, kind, path, after)
    query = select(BackupFileRequest).where(BackupFileRequest.digest == digest)
    request, now = session.scalar(query), clock.now()
    if request is None:
        request = BackupFileRequest(session=row, digest=digest, kind=kind, path=path, after=after, requested_at=now)
        try:
            with session.begin_nested():
                session.add(request)
        except IntegrityError:  # another request was faster
            return session.scalars(query).one(), False
        delete_oldest_lists(row)
        return request, True
    is_late = kind == "list" and request.requested_at < now - timedelta(seconds=RETRY_SECONDS)
    is_needed = {"waiting": is_late, "failed": request.reason is None}.get(request.status, False)
    if is_needed:
        request.status, request.requested_at, request.error = "waiting", now, None
        session.flush()
    return request, is_needed


def delete_oldest_lists(row: BackupFileSession) -> None:
    """Delete the oldest lists beyond `MAX_LISTS`, so that nobody fills the database."""
    lists = select(BackupFileRequest.id).where(BackupFileRequest.session_id == row.id, BackupFileRequest.kind == "list")
    oldest = session.scalars(lists.order_by(BackupFileRequest.id.desc()).offset(MAX_LISTS)).all()
    if oldest:
        session.execute(delete(BackupFileRequest).where(BackupFileRequest.id.in_(oldest)))


def find_request(request_id: str) -> BackupFileRequest | None:
    """Return the request or None, read again, for workers."""
    return session.get(BackupFileRequest, request_id, populate_existing=True)


def record_result(request: BackupFileRequest, *, result: dict[str, Any] | None = None, size: int | None = None) -> None:
    request.status, request.result, request.size, request.error, request.reason = "done", result, size, None, None


def record_failed(request: BackupFileRequest, error: str, reason: str | None = None) -> None:
    """Record why there is no result. With a reason it cannot change."""
    request.status, request.reason = "failed", reason
    request.error = REASON_MESSAGES[reason] if reason else error
