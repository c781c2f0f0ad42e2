"""The log of a sandbox, and the reports that its host asks for."""

import asyncio
import json
import os
import socket

import pytest

from tests.sandbox_guest.daemon import run_daemon, write_identity
from tests.sandbox_guest.raw_client import RawClient
from tests.support.mux_ends import connect_muxes, run
from worker.sandbox_guest import kernel_log, log_entries
from worker.sandbox_guest.identity_stream import exchange_documents, receive_identity
from worker.sandbox_guest.log_entries import LogClient, LogEntries, build_entry, receive_entries
from worker.sandbox_guest.reports import Reporter

KERNEL_RECORDS = (
    b"6,100,2000000,-;Linux version 6.1\n",
    b"4,101,3000000,-;clocksource is \\x22unstable\\x22\\x0anow\n SUBSYSTEM=pci\n",
    b"3,102,4000000,c,more=1;Out of memory: Killed process 7\n",
    b"28,103,5000000,-;systemd[1]: a warning of a program\n",
    b"not a record\n",
)


def read_log(receiver, logger):
    """Return (message, fields) of the entries of a logger that have arrived."""
    entries = []
    while True:
        try:
            entries.append(json.loads(receiver.recv(65536)))
        except BlockingIOError:
            return [(entry["message"], entry["fields"]) for entry in entries if entry["logger"] == logger]


@pytest.fixture
def log_receiver(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "log"))
        receiver.setblocking(False)
        yield receiver


def test_daemon_logs_processes_without_environment_and_input(tmp_path, log_receiver):
    write_identity(tmp_path / "identity.json")
    with run_daemon(tmp_path / "identity.json", "--log", str(tmp_path / "log")) as port, RawClient(port) as client:
        process = {"cmd": "/bin/sh", "args": ["-c", "read x; exit 3"], "envs": {"PASSWORD": "a secret value"}}
        client.open_stream("process.Process/Start", {"process": process, "stdin": False})
        client.read_events()
        started, ended = read_log(log_receiver, "process")
    assert started[0] == "Process started"
    assert started[1]["command"] == "/bin/sh -c 'read x; exit 3'"
    assert started[1]["user"]
    assert ended[0] == "Process ended"
    assert (ended[1]["exit_code"], ended[1]["status"]) == ("3", "exit status 3")
    assert 0 <= float(ended[1]["seconds"]) < 60
    assert started[1]["pid"] == ended[1]["pid"]
    assert "secret" not in str([started, ended])


def test_refused_requests_are_logged_a_few_times_a_minute(tmp_path, log_receiver):
    write_identity(tmp_path / "identity.json")
    with run_daemon(tmp_path / "identity.json", "--log", str(tmp_path / "log")) as port, RawClient(port) as client:
        for _number in range(30):
            assert client.request("GET", "/files?path=/etc/passwd&signature=v1_abc", token="wrong")[0] == 401
        refusals = read_log(log_receiver, "request")
    assert 10 <= len(refusals) <= 20, "a minute may have ended"
    assert refusals[0] == (
        "Request refused",
        {"method": "GET", "path": "/files", "reason": "the signature is not valid"},
    )


def test_entries_of_the_daemon_wait_for_the_channel(tmp_path):
    async def check():
        sender = LogClient(str(tmp_path / "run/log"))
        for number in range(150):
            sender.log("info", "daemon", f"entry {number}")
        entries = LogEntries()
        with receive_entries(entries, str(tmp_path / "run/log")) as receiver:
            assert os.stat(tmp_path / "run/log").st_mode & 0o777 == 0o600
            for garbage in (b"no json", b"[]", b"{}"):
                sender.socket.sendto(garbage, sender.path)
            while entries.latest_number < 100:
                await asyncio.sleep(0.01)
            asyncio.get_running_loop().remove_reader(receiver)
        assert next(iter(entries.entries))["message"] == "entry 50", "the oldest are dropped"
        assert not sender.unsent

    run(check())


def test_kernel_warnings_of_the_boot_are_read_once(tmp_path, monkeypatch):
    async def check():
        log, mark = tmp_path / "kmsg", tmp_path / "run/mark"
        log.write_bytes(b"")
        records = iter([*KERNEL_RECORDS, b""])
        monkeypatch.setattr(os, "read", lambda _fd, _size: next(records))
        entries = LogEntries()
        kernel_log.read_records(0, entries)
        assert [(entry["level"], entry["message"], entry["at"]) for entry in entries.entries] == [
            ("warn", 'clocksource is "unstable" now', 3.0),
            ("error", "Out of memory: Killed process 7", 4.0),
            ("warn", "systemd[1]: a warning of a program", 5.0),
        ]
        monkeypatch.undo()
        positions = []
        for _start in range(2):
            with open(log, "ab") as file:
                file.write(b"x")
            monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", lambda fd, *_: positions.append(fd))
            kernel_log.follow_kernel_log(entries, str(log), str(mark))
        offsets = [os.lseek(fd, 0, os.SEEK_CUR) for fd in positions]
        for fd in positions:
            os.close(fd)
        assert offsets == [0, 2]

    run(check())


def test_host_gets_entries_once_and_load_when_it_asks(tmp_path):
    reporter = Reporter()

    async def accept(stream):
        await receive_identity(stream, tmp_path, reporter)

    async def ask(mux, **request):
        return json.loads(await exchange_documents(mux, {"report": request}, 2**20))

    async def check():
        (tmp_path / "etc").mkdir()
        async with connect_muxes(accept) as (host, _):
            reporter.entries.add({**build_entry("warn", "kernel", "a warning"), "at": 0.0})
            reporter.entries.log("info", "daemon", "x" * 5000 + "\ud800", number="7")
            report = await ask(host, after=0, wait=0, metrics=True)
            first, second = report["entries"]
            assert (first["number"], first["level"], first["message"]) == (1, "warn", "a warning")
            assert first["age"] > 1
            assert len(second["message"]) == log_entries.MAX_TEXT_LENGTH
            assert {"cpu_used_pct", "mem_used", "mem_total", "mem_cache", "disk_used", "disk_total"} <= report[
                "metrics"
            ].keys()
            assert (await ask(host, after=1, wait=0))["entries"][0]["number"] == 2
            assert await ask(host, after=2, wait=0) == {"entries": []}
            waiting = asyncio.create_task(ask(host, after=2, wait=20))
            await asyncio.sleep(0.05)
            reporter.entries.log("info", "process", "Process started")
            assert [entry["number"] for entry in (await waiting)["entries"]] == [3]
            assert json.loads(await exchange_documents(host, {"access_token": "t"}, 1000)) == {}
            assert (await ask(host, after=3, wait=0))["entries"][0]["message"] == "Identity applied"
            for request in ([], {"after": "1"}, {"wait": {}}):
                answer = json.loads(await exchange_documents(host, {"report": request}, 1000))
                assert "report" in answer["error"]
            for number in range(2000):
                reporter.entries.log("info", "process", f"{number} " + "é" * 900)
            entries = (await ask(host, after=0, wait=0))["entries"]
            assert len(json.dumps(entries)) < 256 * 1024
            assert entries[0]["message"].startswith("1500 "), "the oldest were dropped"

    run(check())
