"""Tables to take along: CSV (RFC 4180), sent while it is read."""

import csv
import io
from decimal import Decimal

from flask import Response, stream_with_context

from panel.core import clock

FORMULA_PREFIXES = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""A spreadsheet would calculate what begins with one of these. The last four are wide forms, as they are typed in East
Asia."""


def csv_response(name, columns, rows):
    """An answer with one line for each of `rows`, iterables of values, which may come slowly and be many."""
    answer = Response(stream_with_context(iter_rows(columns, rows)), mimetype="text/csv")
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}-{clock.now():%Y-%m-%d}.csv"'
    answer.headers["Cache-Control"] = "no-store"
    return answer


def iter_rows(columns, rows):
    text = io.StringIO()
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
    """A value as text that no spreadsheet takes for a formula. A number is none, less than nothing or not."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    written = "" if value is None else str(value)
    return f"'{written}" if written.startswith(FORMULA_PREFIXES) else written
