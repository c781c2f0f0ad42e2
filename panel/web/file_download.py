"""Files of backups: a prepared download, sent in pieces, and the screen of a restore test."""

from urllib.parse import quote

from flask import Response

from panel.core import context
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.services import backup_files

BLOCK_BYTES = 256 * 1024


def build_file_response(row, request):
    """Return the answer with a prepared download. The browser stores it and never shows it."""
    path = context.current().config.data_dir / backup_files.FOLDER / row.id / request.id
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotFound(
            message("The download is not there any more. Open the files again."), reason="not_found"
        ) from None
    answer = Response(iterate(file), mimetype="application/octet-stream")
    answer.call_on_close(file.close)
    answer.content_length = request.size
    answer.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(request.file_name, safe='')}"
    answer.headers["Cache-Control"] = "no-store"
    return answer


def iterate(file):
    while block := file.read(BLOCK_BYTES):
        yield block


def build_png_response(test):
    """Return the answer with the screen of a restore test, or raise NotFound."""
    if test is None or not test.has_screenshot:
        raise NotFound(message("There is no screenshot."))
    answer = Response(test.screenshot, mimetype="image/png")
    answer.headers["Cache-Control"] = "no-store"
    return answer
