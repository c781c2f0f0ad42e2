"""Logs and metrics of sandboxes, as SDKs and the command line read them. Metrics take seconds, logs milliseconds."""

import re
from datetime import UTC, datetime

import orjson
from flask import request

from api.sandbox.kit import get_access, route
from api.sandbox.list_query import make_parameter_error
from api.sandbox.sandboxes import get_sandbox
from panel.schemas.microvm_reports import LOG_LEVELS
from panel.services import microvms
from panel.services.microvms import guest_reports

MAX_METRICS_IDS = 100
MAX_SECONDS = 2**33
NUMBER_PATTERN = re.compile(r"[0-9]{1,15}", re.ASCII)


@route("GET", "/sandboxes/metrics", op="list_metrics", can="microvm.view")
def list_metrics():
    """Return the latest metrics of running sandboxes, by their ids. Sandboxes without any are left out."""
    sandbox_ids = [sandbox_id for sandbox_id in request.args.get("sandbox_ids", "").split(",") if sandbox_id]
    if not 0 < len(sandbox_ids) <= MAX_METRICS_IDS:
        raise make_parameter_error(f"sandbox_ids must be 1 to {MAX_METRICS_IDS} ids with commas between them.")
    rows = microvms.list_by_sandbox_ids(sandbox_ids, get_access())
    samples = guest_reports.find_live_samples(rows)
    return {"sandboxes": {row.sandbox_id: build_metric(row, samples[row.id]) for row in rows if row.id in samples}}


@route("GET", "/sandboxes/<sandbox_id>/metrics", op="metrics", can="microvm.view")
def show_metrics(sandbox_id):
    """Return the metrics of a sandbox in the last hour, or between two times, oldest first."""
    since, until = (parse_number(name, MAX_SECONDS) for name in ("start", "end"))
    microvm = get_sandbox(sandbox_id)
    return [build_metric(microvm, sample) for sample in guest_reports.list_samples(microvm, since, until)]


@route("GET", "/sandboxes/<sandbox_id>/logs", op="logs", can="microvm.view")
def show_logs(sandbox_id):
    """Return the log from a time on, oldest first, in the form of the first generation."""
    since, limit = parse_milliseconds("start"), parse_limit()
    entries = guest_reports.list_log(get_sandbox(sandbox_id), limit, since=since)
    return {"logs": [build_line(entry) for entry in entries], "logEntries": [build_entry(entry) for entry in entries]}


@route("GET", "/v2/sandboxes/<sandbox_id>/logs", op="list_logs", can="microvm.view")
def list_logs(sandbox_id):
    """Return the log from a time on, or backward from it."""
    cursor, limit, args = parse_milliseconds("cursor"), parse_limit(), request.args
    direction = parse_choice("direction", ("forward", "backward")) or "forward"
    filters = {"level": parse_choice("level", LOG_LEVELS), "search": args.get("search") or None}
    is_backward = direction == "backward"
    filters |= {"until": cursor, "newest_first": True} if is_backward else {"since": cursor}
    entries = guest_reports.list_log(get_sandbox(sandbox_id), limit, **filters)
    return {"logs": [build_entry(entry) for entry in entries]}


def build_metric(microvm, sample):
    return {
        "timestamp": sample.measured_at,
        "timestampUnix": sample.at,
        "cpuCount": microvm.cpu_cores,
        "cpuUsedPct": sample.cpu_percent,
        "memUsed": sample.memory_used,
        "memTotal": sample.memory_total,
        "memCache": sample.memory_cache,
        "diskUsed": sample.disk_used,
        "diskTotal": sample.disk_total,
    }


def build_line(entry):
    """Return the entry with the text that the command line parses."""
    line = {**entry.fields, "level": entry.level, "logger": entry.logger, "message": entry.message}
    return {"timestamp": entry.at, "line": orjson.dumps(line).decode()}


def build_entry(entry):
    fields = {**entry.fields, "logger": entry.logger}
    return {"timestamp": entry.at, "level": entry.level, "message": entry.message, "fields": fields}


def parse_number(name, maximum):
    """Return the parameter's number, or None when it is absent. Raise a 400 for what is none."""
    text = request.args.get(name)
    if not text:
        return None
    if not NUMBER_PATTERN.fullmatch(text) or int(text) > maximum:
        raise make_parameter_error(f"{name} must be a number up to {maximum}.")
    return int(text)


def parse_milliseconds(name):
    """Return the parameter's time, or None when it is absent."""
    milliseconds = parse_number(name, MAX_SECONDS * 1000)
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def parse_limit():
    limit = parse_number("limit", 10**15)
    if limit == 0:
        raise make_parameter_error("limit must be a positive number.")
    return min(limit or guest_reports.MAX_LOG_ENTRIES, guest_reports.MAX_LOG_ENTRIES)


def parse_choice(name, words):
    text = request.args.get(name)
    if text and text not in words:
        raise make_parameter_error(f"{name} must be one of {', '.join(words)}.")
    return text or None
