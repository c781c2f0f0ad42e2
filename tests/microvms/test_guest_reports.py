"""What guests report: how much of it is stored, and who reads it."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select

from panel.core import clock
from panel.core.db import session
from panel.models import MicrovmGuestSample, MicrovmLogEntry
from panel.services.microvms import guest_reports
from panel.services.microvms.guest_reports import LogRecord, Sample

BEGIN = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
LOAD = {
    "cpu_percent": 3.5,
    "memory_used": 2**28,
    "memory_total": 2**29,
    "memory_cache": 2**20,
    "disk_used": 3 * 2**28,
    "disk_total": 2**31,
}


def record(microvm, *messages, level="info", **fields):
    entries = [
        LogRecord(microvm.id, BEGIN + timedelta(seconds=number), level, "process", text, fields)
        for number, text in enumerate(messages)
    ]
    guest_reports.record(entries, [])
    session.commit()


def record_sample(microvm, age=0):
    guest_reports.record([], [Sample(microvm.id, int(clock.now().timestamp()) - age, **LOAD)])
    session.commit()


def count_rows(model):
    return session.scalar(select(func.count()).select_from(model))


def test_only_the_latest_entries_and_samples_are_stored(microvm, create_microvm, monkeypatch):
    monkeypatch.setattr(guest_reports, "MAX_LOG_ENTRIES", 5)
    other = create_microvm()
    record(other, "of another")
    for start in range(0, 12, 4):
        record(microvm, *(f"entry {number}" for number in range(start, start + 4)))
    messages = select(MicrovmLogEntry.message).order_by(MicrovmLogEntry.number)
    own = messages.where(MicrovmLogEntry.microvm_id == microvm.id)
    assert session.scalars(own).all() == [f"entry {number}" for number in range(7, 12)]
    assert count_rows(MicrovmLogEntry) == 6
    for age in (4000, 3000, 10):
        record_sample(microvm, age)
    assert count_rows(MicrovmGuestSample) == 2


def test_recording_takes_constant_number_of_statements(microvm, create_microvm, queries):
    ids, counts = [row.id for row in (microvm, *(create_microvm() for _number in range(3)))], []
    now = int(clock.now().timestamp())
    for some in (ids[:1], ids):
        queries.clear()
        entries = [LogRecord(id_, BEGIN, "info", "process", "text", {}) for id_ in some]
        guest_reports.record(entries, [Sample(id_, now - len(counts), **LOAD) for id_ in some])
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_reports_end_with_the_micro_vm(microvm, request_action, run_tasks):
    record(microvm, "entry")
    record_sample(microvm)
    request_action(microvm, "destroy")
    run_tasks()
    assert count_rows(MicrovmLogEntry) == count_rows(MicrovmGuestSample) == 0
    record(microvm, "too late")
    record_sample(microvm)
    assert count_rows(MicrovmLogEntry) == count_rows(MicrovmGuestSample) == 0


def test_logs_are_the_latest_oldest_first(microvm, call_api):
    path = f"vm/{microvm.id}/logs"
    assert call_api("GET", path).json["logs"] == []
    record(microvm, "first", "second", pid="7")
    record(microvm, "a warning", level="warn")
    logs = call_api("GET", path).json["logs"]
    assert [entry["message"] for entry in logs] == ["first", "a warning", "second"]
    assert {name: value for name, value in logs[0].items() if name != "at"} == {
        "level": "info",
        "logger": "process",
        "message": "first",
        "details": {"pid": "7"},
    }
    assert [entry["message"] for entry in call_api("GET", f"{path}?limit=1").json["logs"]] == ["second"]
    assert [entry["message"] for entry in call_api("GET", f"{path}?level=warn").json["logs"]] == ["a warning"]
    assert [entry["message"] for entry in call_api("GET", f"{path}?search=FIR").json["logs"]] == ["first"]
    for query, name in (("level=fatal", "level"), ("limit=0", "limit"), ("limit=1001", "limit")):
        answer = call_api("GET", f"{path}?{query}")
        assert (answer.status_code, list(answer.json["errors"])) == (422, [name])
    assert call_api("GET", path, caller="outsider").status_code == 404


def test_metrics_have_the_load_of_the_guest(microvm, call_api, request_action, run_tasks):
    """MVM-05"""
    path = f"vm/{microvm.id}/metrics"
    assert call_api("GET", path).json["guest"] is None
    record_sample(microvm, age=guest_reports.LIVE_SAMPLE_SECONDS + 5)
    assert call_api("GET", path).json["guest"] is None
    record_sample(microvm)
    guest = call_api("GET", path).json["guest"]
    assert {name: value for name, value in guest.items() if name != "at"} == LOAD
    request_action(microvm, "pause")
    run_tasks()
    assert call_api("GET", path).json["guest"] is None


def test_page_shows_log_and_load(browser_as, microvm):
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    page = browser.get(path).text
    assert "Logs are not available here. Contact support." in page
    assert "Disk in use" not in page
    record(microvm, "Process <started>", command="/bin/true & more")
    record(microvm, "A kernel warning", level="warn")
    record_sample(microvm)
    page = browser.get(path).text
    assert "Process &lt;started&gt;" in page
    assert "command=/bin/true &amp; more" in page
    assert "768 MiB of 2 GiB" in page
    for headers in ({}, {"HX-Request": "true", "HX-Request-Type": "partial"}):
        page = browser.get(f"{path}/logs?level=warn", headers=headers).text
        assert "A kernel warning" in page
        assert "started" not in page.partition("<section")[2]
    assert "no entries of this level" in browser.get(f"{path}/logs?level=error").text
    assert browser_as("outsider").get(f"{path}/logs").status_code == 404


def test_page_shows_the_latest_entries_and_links_to_pages_of_all(browser_as, microvm):
    record(microvm, *(f"entry {number}." for number in range(30)))
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    page = browser.get(path).text
    assert "entry 20." in page
    assert "entry 19." not in page
    assert f'href="{path}/logs"' in page
    assert "Wed 02 Jan 2030, 03:04:34" in page
    first, second = browser.get(f"{path}/logs").text, browser.get(f"{path}/logs?page=2").text
    assert ("entry 5." in first, "entry 4." in first, "1–25 of 30" in first) == (True, False, True)  # noqa: RUF001
    assert ("entry 4." in second, "entry 5." in second) == (True, False)


def test_page_says_that_nothing_was_logged_while_a_router_runs(browser_as, microvm, monkeypatch):
    monkeypatch.setattr(guest_reports, "has_collector", lambda: True)
    assert "Nothing has been logged yet" in browser_as("owner").get(f"/microvms/{microvm.id}/logs").text


def test_metrics_page_shows_the_samples_of_the_guest(browser_as, microvm):
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    assert "No data for this period." in browser.get(f"{path}/metrics").text
    for age in (45, 30, 15, 2400):
        record_sample(microvm, age)
    assert f'href="{path}/metrics"' in browser.get(path).text
    page = browser.get(f"{path}/metrics").text
    for text in ("CPU", "3.5 %", "Memory", "256 MiB", "Disk space", "768 MiB"):
        assert text in page
    assert "Network" not in page.partition("<main")[2].partition("</main")[0]
    hour = browser.get(f"{path}/metrics/data?range=1h").json
    assert hour["values"]["memory_used"] == [256, None, 256, 256, 256]  # with a gap
    assert hour["maxima"] == {"cpu_percent": 100, "memory_used": 512, "disk_used": 2048}
    assert browser.get(f"{path}/metrics/data?range=30m").json["values"]["cpu_percent"] == [3.5] * 3
    for address in ("metrics", "metrics/data"):
        assert browser_as("outsider").get(f"{path}/{address}").status_code == 404
