"""All benchmarks run with tiny sizes."""

import os
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.bench import deploy, rows, run
from tests.support.panel_commands import start_script

MAX_PARALLEL_BENCHMARKS = 3
BENCHMARK_TIMEOUT_SECONDS, CLEAN_UP_TIMEOUT_SECONDS = 600, 60
LAST_LINES = {
    "alert_rules": "alert rules, the same fires, PostgreSQL",
    "rows": "list of 100, PostgreSQL, a million others",
    "consoles": "a browser before a streaming picture",
    "nodes": "machines that did not change",
    "webhooks": "an event to its first attempt",
    "shells": "in a terminal that draws slowly, within",
    "live_events": "a request while streams are open",
    "access": "share of authentication",
    "metrics": "small curves of 100",
    "metrics_export": "metrics from the cache, gzip, PostgreSQL",
    "mux": "16 MiB read by the host, against a socket pair",
    "backups": "memory of a job",
    "backup_list": "the page of backups",
    "microvms": "/healthz with 16 open streams",
    "pages": "the slowest page, PostgreSQL",
}
"""Text of the last line of each benchmark that boots no guest."""


BENCHMARK_SCRIPT = "import sys; from tests.bench import run; sys.exit(run.main(sys.argv[1:], '--quick'))"


def run_quick_benchmark(name):
    """Run a benchmark with tiny sizes and return its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PANEL_")}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        process = start_script(BENCHMARK_SCRIPT, (name,), environment, output)
        try:
            process.wait(BENCHMARK_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it ends the processes that it started
            process.wait(CLEAN_UP_TIMEOUT_SECONDS)
        text = output.read_text()
    assert process.returncode == 0, text
    return text


@pytest.mark.processes
@pytest.mark.slow_proof("benchmarks")
def test_benchmarks_without_guest_run():
    """`make bench` failed when fields of an instance were lists."""
    with ThreadPoolExecutor(MAX_PARALLEL_BENCHMARKS) as pool:
        outputs = dict(zip(LAST_LINES, pool.map(run_quick_benchmark, LAST_LINES), strict=True))
    assert {name for name, line in LAST_LINES.items() if line in outputs[name]} == set(LAST_LINES)


def test_all_benchmarks_are_tested():
    """`sandboxes` boots too many guests for each run of the tests; tests/guests/test_sandbox.py does its steps."""
    assert {*LAST_LINES, "deploy", "backup_latency", "sandboxes"} == set(run.BENCHMARK_NAMES)


@pytest.mark.guest
def test_deploy_benchmark_runs(lab, hypervisor, monkeypatch):
    """On the hypervisor of the guest tests, because another one has to boot a machine for its image first."""
    for constant, size in deploy.QUICK_SIZES.items():
        monkeypatch.setattr(deploy, constant, size)
    ratios = {}
    deploy.measure(lambda what, value, maximum: ratios.update({what: value}), lab, hypervisor)
    assert all(ratio > 0 for ratio in ratios.values())
    assert len(ratios) == 2


@pytest.mark.guest
@pytest.mark.slow_proof("backups")
def test_backup_latency_benchmark_runs():
    assert "writes of a guest during a backup" in run_quick_benchmark("backup_latency")


def test_bare_database_stores_lists_and_objects(tmp_path):
    """Objects and lists are written as JSON."""
    path = rows.create_bare_database(
        tmp_path, [{"id": "one", "ips": ["::1"], "location": {"id": 1}, "ram": 512}], "token"
    )
    assert path.exists()
