"""Every benchmark starts and measures something (issue 12, requirement 9)."""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from panel.core.config import ROOT
from tests.bench import rows, run
from tests.processes.conftest import WAIT_TIMEOUT_SECONDS

BENCHMARKS_AT_A_TIME = 3
LAST_LINES = {
    "rows": "list of 100, PostgreSQL, a million others",
    "consoles": "a browser before a streaming picture",
    "nodes": "machines that did not change",
    "webhooks": "an event to its first attempt",
    "shells": "in a terminal that draws slowly, within",
    "access": "share of authentication",
    "metrics": "small curves of 100",
}
"""What each benchmark that boots no guest measures last."""


def run_quickly(name):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PANEL_")}
    command = [sys.executable, "-m", "tests.bench.run", "--quick", name]
    with tempfile.TemporaryFile("w+") as said:  # no pipe, which a process that is left over would hold open
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=said, stderr=said, timeout=WAIT_TIMEOUT_SECONDS
        )
        said.seek(0)
        text = said.read()
    assert done.returncode == 0, text
    return text


@pytest.mark.processes
def test_every_benchmark_runs_to_its_end():
    """Requirement 9: `make bench` failed on lists among the fields of an instance."""
    with ThreadPoolExecutor(BENCHMARKS_AT_A_TIME) as pool:
        said = dict(zip(LAST_LINES, pool.map(run_quickly, LAST_LINES), strict=True))
    assert {name for name, line in LAST_LINES.items() if line in said[name]} == set(LAST_LINES)


def test_every_benchmark_is_tried():
    assert {*LAST_LINES, "deploy"} == set(run.NAMES)


@pytest.mark.guest
def test_the_benchmark_of_deployments_runs_to_its_end():
    assert "create to the first SSH answer" in run_quickly("deploy")


def test_a_bare_database_takes_every_field_of_an_instance(tmp_path):
    """Requirement 9: objects and lists are both written as JSON."""
    path = rows.bare_database(tmp_path, [{"id": "one", "ips": ["::1"], "location": {"id": 1}, "ram": 512}], "token")
    assert path.exists()
