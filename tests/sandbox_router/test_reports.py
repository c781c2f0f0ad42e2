"""Reports of sandboxes: who is asked, what is accepted of a hostile guest, and what reaches the database."""

import asyncio
import json
import threading
from datetime import timedelta

import pytest
from sqlalchemy.exc import OperationalError

from panel.core import clock
from tests.sandbox_router.lab import OTHER_SANDBOX_ID, SANDBOX_ID, build_route, find_closed_port, make_host, wait_until
from tests.support.mux_ends import run
from worker.sandbox_guest.reports import Reporter
from worker.sandbox_router import report_checks, reports
from worker.sandbox_router.report_checks import ReportInvalid, read_report

MICROVM_ID = f"machine of {SANDBOX_ID}"
ENTRY = {
    "number": 1,
    "age": 2,
    "level": "info",
    "logger": "process",
    "message": "Process started",
    "fields": {"pid": "7"},
}
METRICS = {
    "cpu_used_pct": 12.5,
    "mem_used": 1,
    "mem_total": 5,
    "mem_cache": 2,
    "disk_used": 3,
    "disk_total": 4,
    "ts": 0,
}


class Written(list):
    """What was written: (entries, samples) of each batch."""

    def __call__(self, entries, samples):
        self.append((entries, samples))

    def list_messages(self):
        return [entry.message for entries, _samples in self for entry in entries]

    def list_samples(self):
        return [sample for _entries, samples in self for sample in samples]


def test_reports_of_sandboxes_that_nobody_uses_arrive(lab):
    lab.reporter, written = Reporter(), Written()
    lab.rows[OTHER_SANDBOX_ID] = build_route(OTHER_SANDBOX_ID, "paused")

    async def check():
        lab.reporter.entries.log("info", "daemon", "Daemon started")
        async with lab.run_router() as router, lab.collect_reports(router, written):
            await wait_until(lambda: "Daemon started" in written.list_messages())
            lab.reporter.entries.log("info", "process", "Process started", pid="7")
            await wait_until(lambda: len(written.list_samples()) >= 2)
            router.channels.close_idle(0)
            assert list(router.channels.channels) == [SANDBOX_ID], (
                "it stays open, and that of the paused one is not opened"
            )
            await wait_until(lambda: "Process started" in written.list_messages())
            lab.rows[SANDBOX_ID] = build_route(state="paused")
            await wait_until(lambda: not router.channels.permanent_ids)
            router.channels.close_idle(0)
            assert not router.channels.channels

    run(check())
    assert sorted(written.list_messages()) == ["Daemon started", "Identity applied", "Process started"]
    entry = next(entry for entries, _samples in written for entry in entries if entry.message == "Process started")
    assert (entry.microvm_id, entry.level, entry.logger, entry.fields) == (MICROVM_ID, "info", "process", {"pid": "7"})
    assert abs(entry.at - clock.now()) < timedelta(seconds=60)
    assert {sample.microvm_id for sample in written.list_samples()} == {MICROVM_ID}


def test_older_image_without_reports_serves_its_clients(lab):
    async def check():
        async with lab.run_router() as router, lab.collect_reports(router, Written()) as collector:
            await wait_until(lambda: lab.events.count("identity") == 2 and not collector.followers)
            status, body = await lab.call(host=make_host(find_closed_port()))
            assert (status, body["message"]) == (502, "The sandbox is running but port is not open")
            await asyncio.sleep(0.3)
            assert lab.events.count("identity") == 2, "it is not asked again in this session"

    run(check())


def test_guest_without_channel_is_tried_less_and_less(lab):
    lab.channel_error = ConnectionRefusedError()

    async def check():
        async with lab.run_router() as router, lab.collect_reports(router, Written()) as collector:
            await wait_until(lambda: SANDBOX_ID in collector.retries)
            assert collector.retries[SANDBOX_ID][1] == 2 * reports.FIRST_RETRY_SECONDS
            lookups = lab.lookups
            await asyncio.sleep(0.3)
            assert lab.lookups == lookups

    run(check())


def test_database_that_is_away_delays_no_stream(lab, caplog):
    lab.reporter, failures = Reporter(), []
    started, release = threading.Event(), threading.Event()

    def write(entries, samples):
        started.set()
        release.wait(10)
        failures.append(len(samples))
        raise OperationalError("INSERT", {}, Exception("the database is away"))

    async def check():
        async with lab.run_router() as router, lab.collect_reports(router, write) as collector:
            await wait_until(started.is_set)
            status, _body = await lab.call(host=make_host(find_closed_port()))
            assert status == 502
            release.set()
            await wait_until(lambda: len(failures) >= 2)
            assert collector.writer.dropped_count >= sum(failures)

    run(check())
    assert caplog.text.count("sandbox_reports_dropped") <= 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"entries": 1}',
        b'{"entries": [NaN]}',
        b'{"entries": ["\\ud800"]}',
        b'{"error": "access_token is missing"}',
        b"[" * 100_000,
    ],
)
def test_answer_that_is_no_report_is_refused(body):
    with pytest.raises(ReportInvalid):
        read_report(body, MICROVM_ID, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"level": "fatal"},
        {"level": ["info"]},
        {"logger": "Process"},
        {"logger": "x" * 33},
        {"logger": 7},
        {"message": None},
        {"message": {"a": 1}},
        {"age": -1},
        {"age": 10**400},
        {"age": "1"},
        {"age": True},
        {"fields": []},
        {"fields": {"pid": 7}},
        {"fields": {"": "x"}},
        {"fields": {f"f{number}": "" for number in range(17)}},
        {"number": 0},
        {"number": 2**60},
        {"number": 1.5},
    ],
)
def test_entry_with_wrong_field_is_dropped(change):
    body = json.dumps({"entries": [{**ENTRY, **change}, {**ENTRY, "number": 2}, "no entry"]})
    report = read_report(body.encode(), MICROVM_ID, 0) if 10**400 not in change.values() else None
    if report is None:
        with pytest.raises(ReportInvalid):
            read_report(body.encode(), MICROVM_ID, 0)
        return
    assert (len(report.entries), report.invalid_count, report.latest_number) == (1, 2, 2)


def test_texts_of_a_guest_are_short_and_without_control_characters():
    entry = {**ENTRY, "message": "a\0b\x1b[31mc\u202ed" + "x" * 5000, "fields": {"command": "rm\nx" + "y" * 5000}}
    (record,) = read_report(json.dumps({"entries": [entry]}).encode(), MICROVM_ID, 0).entries
    assert record.message.startswith("a b [31mc dxxx")
    assert len(record.message) == report_checks.MAX_MESSAGE_LENGTH
    assert record.fields["command"].startswith("rm xyyy")
    assert len(record.fields["command"]) == report_checks.MAX_VALUE_LENGTH


@pytest.mark.parametrize(
    "change", [{"cpu_used_pct": 101}, {"cpu_used_pct": "1"}, {"mem_used": -1}, {"disk_used": 2**51}, {"mem_cache": 1.5}]
)
def test_sample_with_wrong_figure_is_dropped(change):
    assert read_report(json.dumps({"entries": [], "metrics": METRICS}).encode(), MICROVM_ID, 0).sample.memory_total == 5
    body = json.dumps({"entries": [], "metrics": {**METRICS, **change}})
    assert read_report(body.encode(), MICROVM_ID, 0).sample is None


def test_flood_of_entries_is_cut_and_counted(lab, monkeypatch):
    monkeypatch.setattr(reports, "ENTRY_BURST", 20)
    monkeypatch.setattr(reports, "REPORT_INTERVAL_SECONDS", 0.05)
    lab.reporter, written = Reporter(), Written()

    async def check():
        async with lab.run_router() as router, lab.collect_reports(router, written):
            await wait_until(lambda: "Identity applied" in written.list_messages())
            for number in range(2000):
                lab.reporter.entries.log("info", "process", f"entry {number}")
            await wait_until(lambda: not lab.reporter.entries.entries)
            await wait_until(lambda: "Entries of the log were dropped" in written.list_messages())

    run(check())
    assert len(written.list_messages()) < 40


def test_endless_answer_ends_at_its_limit(lab):
    class Endless(Reporter):
        async def build_report(self, _request):
            return {"entries": ["x" * 1000] * 1000}

    lab.reporter = Endless()

    async def check():
        async with lab.run_router() as router, lab.collect_reports(router, Written()) as collector:
            await wait_until(lambda: SANDBOX_ID in router.channels.channels and not collector.followers)
            assert (await lab.call(host=make_host(find_closed_port())))[0] == 502

    run(check())
