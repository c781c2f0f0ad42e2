"""Wait in a request for what the machine of a session reads. Pages do not wait, they ask again."""

from panel.core.errors import Problem, Unavailable
from panel.core.messages import message
from panel.services import backup_files
from panel.services.backup_files.requests import STATUSES
from panel.workflows import waiting

WORKERS_BUSY_MESSAGE = message("The list is not there yet. Try again in a moment.")
NOT_PREPARED_MESSAGE = message("The download is being prepared. Send the same request again in a moment.")
RESULT_TIMEOUT_SECONDS = 8
"""Most answers arrive within two seconds."""


def list_files(row, path, after=""):
    """Return the request with the list of a folder. Raise when it cannot be read."""
    request = backup_files.request_list(row, path, after)
    return wait_for_result(request, Unavailable(WORKERS_BUSY_MESSAGE, reason="files_not_ready"))


def fetch_download(row, path, *, actor):
    """Return the request for a download that is ready. Raise `download_not_ready` while it is being prepared."""
    request = backup_files.request_download(row, path, actor=actor)
    return wait_for_result(request, Unavailable(NOT_PREPARED_MESSAGE, reason="download_not_ready"))


def wait_for_result(request, problem):
    if request.status == "waiting":
        waiting.wait_for(request, lambda: request.status != "waiting", RESULT_TIMEOUT_SECONDS)
    if request.status == "waiting":
        raise problem
    ensure_done(request)
    return request


def ensure_done(request):
    """Raise why the request failed."""
    if request.status == "failed":
        status = STATUSES.get(request.reason, 422) if request.reason else 503
        raise Problem(request.error, status=status, reason=request.reason or "files_not_ready")
