"""Export of tables as CSV (RFC 4180), streamed while the rows are read."""

import csv
import io
import threading
from contextlib import ExitStack
from decimal import Decimal

from flask import Response, stream_with_context

from panel.core import clock
from panel.core.errors import TooMany
from panel.core.messages import message

MAX_EXPORTS_PER_PROCESS = 2
"""Downloads at the same time. Each occupies a thread of the web process, which has `web_threads` of them."""
RETRY_SECONDS = 30

BYTE_ORDER_MARK = "\ufeff"
"""Begins the files for people, because Excel reads text without it as that of an old Windows."""

export_slots = threading.BoundedSemaphore(MAX_EXPORTS_PER_PROCESS)

FORMULA_PREFIXES = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""Spreadsheets evaluate cells that begin with one of these. The last four are the full-width forms that are used in
East Asia."""


def build_csv_response(name, columns, rows, *, for_programs=False):
    """Return a streamed download with one line for each of `rows`, which may be a slow or long iterable of iterables
    of values. It begins with a byte order mark unless it is for programs. Raise `TooMany` while other downloads occupy
    the threads for them."""
    if not export_slots.acquire(blocking=False):
        raise TooMany(message("Other downloads are running. Try again in half a minute."), seconds=RETRY_SECONDS)
    slot = ExitStack()
    slot.callback(export_slots.release)
    answer = Response(
        stream_with_context(iter_rows(columns, rows, slot, "" if for_programs else BYTE_ORDER_MARK)),
        mimetype="text/csv",
    )
    answer.call_on_close(slot.close)  # also when it was never read
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}-{clock.now():%Y-%m-%d}.csv"'
    answer.headers["Cache-Control"] = "no-store"
    return answer


def iter_rows(columns, rows, slot, start):
    with slot:
        text = io.StringIO()
        text.write(start)
        writer = csv.writer(text)
        writer.writerow(columns)
        for row in rows:
            writer.writerow([escape_formula(value) for value in row])
            if text.tell() > 16_000:
                yield text.getvalue()
                text.seek(0)
                text.truncate()
        yield text.getvalue()


def escape_formula(value):
    """Return the value as text that no spreadsheet evaluates as a formula. Decimals are left as they are, also negative
    ones."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA_PREFIXES) else text
