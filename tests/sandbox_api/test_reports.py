"""Logs and metrics as SDKs and the command line read them."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Microvm
from panel.services.microvms import guest_reports
from panel.services.microvms.guest_reports import LogRecord, Sample

BEGIN = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
BEGIN_MS = int(BEGIN.timestamp() * 1000)


@pytest.fixture
def sandbox_id(create_sandbox):
    return create_sandbox()["sandboxID"]


def find_microvm_id(sandbox_id):
    return session.scalar(select(Microvm.id).where(Microvm.sandbox_id == sandbox_id))


def record_log(sandbox_id, *messages, level="info"):
    """Record entries with a second between them."""
    microvm_id = find_microvm_id(sandbox_id)
    entries = [
        LogRecord(microvm_id, BEGIN + timedelta(seconds=number), level, "process", text, {"pid": "7"})
        for number, text in enumerate(messages)
    ]
    guest_reports.record(entries, [])
    session.commit()


def record_sample(sandbox_id, age=0, **values):
    load = {"cpu_percent": 3.5, "memory_used": 100, "memory_total": 500, "memory_cache": 20, "disk_used": 200}
    at = int(clock.now().timestamp()) - age
    guest_reports.record([], [Sample(find_microvm_id(sandbox_id), at, **{**load, "disk_total": 1000, **values})])
    session.commit()
    return at


def list_messages(answer):
    assert answer.status_code == 200, answer.json
    return [entry["message"] for entry in answer.json["logs"]]


def test_metrics_have_all_fields(call, sandbox_id):
    record_sample(sandbox_id, age=60)
    at = record_sample(sandbox_id)
    old, new = call("GET", f"/sandboxes/{sandbox_id}/metrics").json
    assert new == {
        "timestamp": new["timestamp"],
        "timestampUnix": at,
        "cpuCount": 1,
        "cpuUsedPct": 3.5,
        "memUsed": 100,
        "memTotal": 500,
        "memCache": 20,
        "diskUsed": 200,
        "diskTotal": 1000,
    }
    assert datetime.fromisoformat(new["timestamp"]).timestamp() == at
    assert call("GET", f"/sandboxes/{sandbox_id}/metrics?start={at - 30}&end={at}").json == [new]
    assert call("GET", f"/sandboxes/{sandbox_id}/metrics?end={at - 30}").json == [old]
    assert call("GET", "/sandboxes/unknown/metrics").status_code == 404


def test_metrics_of_many_are_the_latest_of_own_sandboxes(call, create_sandbox, keys, queries):
    ids = [create_sandbox()["sandboxID"] for _number in range(3)]
    record_sample(ids[0], age=30, cpu_percent=1)
    record_sample(ids[0], cpu_percent=2)
    record_sample(ids[1], age=guest_reports.LIVE_SAMPLE_SECONDS + 5)
    path = f"/sandboxes/metrics?sandbox_ids={','.join([*ids, 'unknown'])}"
    sandboxes = call("GET", path).json["sandboxes"]
    assert {id_: metric["cpuUsedPct"] for id_, metric in sandboxes.items()} == {ids[0]: 2.0}
    assert call("GET", path, key=keys["outsider"]).json == {"sandboxes": {}}
    for wrong in ("", ",".join("abc" for _number in range(101))):
        assert call("GET", f"/sandboxes/metrics?sandbox_ids={wrong}").status_code == 400
    counts = []
    for some in (ids[:1], ids):
        queries.clear()
        call("GET", f"/sandboxes/metrics?sandbox_ids={','.join(some)}")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_log_in_the_form_of_the_first_generation(call, sandbox_id):
    assert call("GET", f"/sandboxes/{sandbox_id}/logs").json == {"logs": [], "logEntries": []}
    record_log(sandbox_id, "first", "second", "third")
    answer = call("GET", f"/sandboxes/{sandbox_id}/logs?start={BEGIN_MS + 1000}&limit=1").json
    (line,), (entry,) = answer["logs"], answer["logEntries"]
    fields = {"pid": "7", "logger": "process"}
    assert entry == {"timestamp": entry["timestamp"], "level": "info", "message": "second", "fields": fields}
    assert datetime.fromisoformat(entry["timestamp"]) == BEGIN + timedelta(seconds=1)
    assert json.loads(line["line"]) == {"level": "info", "message": "second", **fields}
    assert line["timestamp"] == entry["timestamp"]


def test_log_of_the_second_generation_is_read_in_both_directions(call, sandbox_id):
    record_log(sandbox_id, "first", "second", "third")
    path = f"/v2/sandboxes/{sandbox_id}/logs"
    assert list_messages(call("GET", path)) == ["first", "second", "third"]
    assert list_messages(call("GET", f"{path}?cursor={BEGIN_MS + 1000}")) == ["second", "third"]
    backward = f"{path}?direction=backward"
    assert list_messages(call("GET", f"{backward}&limit=2")) == ["third", "second"]
    assert list_messages(call("GET", f"{backward}&cursor={BEGIN_MS + 1000}")) == ["second", "first"]


def test_log_is_filtered_by_level_and_text(call, sandbox_id):
    record_log(sandbox_id, "50% used", "fifty used")
    record_log(sandbox_id, "a warning", level="warn")
    path = f"/v2/sandboxes/{sandbox_id}/logs"
    assert list_messages(call("GET", f"{path}?level=warn")) == ["a warning"]
    assert len(list_messages(call("GET", f"{path}?level=debug"))) == 3
    assert list_messages(call("GET", f"{path}?search=50%25")) == ["50% used"]


@pytest.mark.parametrize(
    "query",
    ["level=fatal", "direction=up", "limit=0", "limit=-1", "limit=x", "cursor=-1", "cursor=1.5", f"cursor={10**14}"],
)
def test_wrong_parameter_is_named(call, sandbox_id, query):
    answer = call("GET", f"/v2/sandboxes/{sandbox_id}/logs?{query}")
    assert (answer.status_code, answer.json["code"]) == (400, 400)
    assert query.partition("=")[0] in answer.json["message"]


@pytest.mark.parametrize("path", ["/sandboxes/{}/logs", "/v2/sandboxes/{}/logs", "/sandboxes/{}/metrics"])
def test_reports_of_foreign_and_unknown_sandboxes_are_not_found(call, sandbox_id, keys, path):
    assert call("GET", path.format(sandbox_id), key=keys["outsider"]).status_code == 404
    assert call("GET", path.format("unknown")).status_code == 404
    assert call("GET", path.format(sandbox_id), key="e2b_" + "0" * 40).status_code == 401
