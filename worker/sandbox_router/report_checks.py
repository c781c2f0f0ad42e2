"""Reading a guest's report. The guest is hostile: what is not as it must be is dropped, and everything has a limit."""

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from panel.core import clock
from panel.schemas.microvm_reports import LOG_LEVELS
from panel.services.microvms.guest_reports import LogRecord, Sample

MAX_REPORT_BYTES = 256 * 1024
MAX_ENTRIES = 100
MAX_MESSAGE_LENGTH = MAX_VALUE_LENGTH = 1000
MAX_FIELDS = 16
MAX_NAME_LENGTH = 32
MAX_AGE_SECONDS = 7 * 86400
MAX_NUMBER = 2**53
MAX_BYTES = 2**50
NAME = re.compile(r"[a-z][a-z0-9_.]*")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")
"""They are replaced: a log is read in terminals, and the database refuses some."""


class ReportInvalid(Exception):
    """The guest's answer is no report."""


@dataclass(frozen=True)
class Report:
    """`latest_number`: of the last entry, also of one that was dropped. `invalid_count`: entries that were."""

    entries: list[LogRecord]
    latest_number: int
    invalid_count: int
    sample: Sample | None


def read_report(body: bytes, microvm_id: str, after: int) -> Report:
    """Return what a guest's answer says, after the entry with this number. Raises `ReportInvalid`."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ReportInvalid("The answer is not valid.") from None
    rows = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise ReportInvalid("The answer is no report.")
    now, entries, invalid_count = clock.now(), [], max(0, len(rows) - MAX_ENTRIES)
    for row in rows[:MAX_ENTRIES]:
        number = read_number(row.get("number"), MAX_NUMBER) if isinstance(row, dict) else None
        if number is None or number <= after:
            invalid_count += 1
            continue
        after = number
        if record := read_entry(row, microvm_id, now):
            entries.append(record)
        else:
            invalid_count += 1
    return Report(entries, after, invalid_count, read_sample(document.get("metrics"), microvm_id, now))


def read_entry(row: dict[str, Any], microvm_id: str, now: datetime) -> LogRecord | None:
    level, logger, message, fields = (row.get(name) for name in ("level", "logger", "message", "fields"))
    if level not in LOG_LEVELS or not isinstance(message, str) or not isinstance(fields, dict):
        return None
    seconds = read_float(row.get("age"), MAX_AGE_SECONDS)
    if seconds is None or not isinstance(logger, str) or len(fields) > MAX_FIELDS:
        return None
    if not is_name(logger) or not all(is_name(name) and isinstance(value, str) for name, value in fields.items()):
        return None
    return LogRecord(
        microvm_id=microvm_id,
        at=now - timedelta(seconds=seconds),
        level=level,
        logger=logger,
        message=replace_control_characters(message[:MAX_MESSAGE_LENGTH]),
        fields={name: replace_control_characters(value[:MAX_VALUE_LENGTH]) for name, value in fields.items()},
    )


def read_sample(document: Any, microvm_id: str, now: datetime) -> Sample | None:
    if not isinstance(document, dict):
        return None
    percent = read_float(document.get("cpu_used_pct"), 100)
    names = ("mem_used", "mem_total", "mem_cache", "disk_used", "disk_total")
    sizes = [read_number(document.get(name), MAX_BYTES) for name in names]
    if percent is None or None in sizes:
        return None
    return Sample(microvm_id, int(now.timestamp()), percent, *sizes)  # type: ignore[arg-type]


def is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_NAME_LENGTH and NAME.fullmatch(value) is not None


def read_number(value: Any, maximum: int) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= maximum else None


def read_float(value: Any, maximum: float) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and 0 <= value <= maximum else None


def replace_control_characters(text: str) -> str:
    return CONTROL_CHARACTERS.sub(" ", text)
