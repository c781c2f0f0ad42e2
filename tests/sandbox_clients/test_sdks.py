"""The unmodified SDKs of E2B, in the releases that people have, against a running panel and its router.

SBX-03, SBX-10
"""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.support import sandbox_clients

pytestmark = pytest.mark.processes

PROGRAMS = Path(__file__).parent / "programs"
OLDEST_RELEASE = "2.15.3"
EXPECTED = {
    "info": [{"owner": "a b&c=d/é+%"}, "running", "base"],
    "listed": [True, True, False],
    "extended": True,
    "running": True,
    "run": ["hi test 1\n", "problem\n", 0],
    "exit_code": 3,
    "timed_out": True,
    "input": "got x\n",
    "terminal": True,
    "text": "text ü",
    "bytes": True,
    "names": ["bytes"],
    "missing": True,
    "watched": ["new"],
    "paused": [False, "paused"],
    "unreachable": True,
    "reached_after_connect": True,
    "kept": "text ütest\n",
    "killed": [True, False, False],
    "gone": True,
}


@pytest.fixture
def run_javascript(platform, tmp_path):
    """Return a function that runs a program with the packages of npm beside it."""
    (tmp_path / "node_modules").symlink_to(sandbox_clients.find_node_modules())

    def run(program, *arguments, **options):
        return platform.run("node", shutil.copy(program, tmp_path), *arguments, **options)

    return run


@pytest.mark.parametrize("form", ["path", "domain"])
@pytest.mark.parametrize("release", [None, *sandbox_clients.PYTHON_RELEASES])
def test_python_sdk(platform, release, form):
    python = sandbox_clients.find_python(release) if release else sys.executable
    results = json.loads(platform.run(python, PROGRAMS / "calls.py", form, form=form))
    expected = EXPECTED | ({"signed": "text ü"} if form == "domain" else {})
    if (release, form) == (OLDEST_RELEASE, "path"):  # it sends no headers for the router after it has connected
        expected = {**expected, "reached_after_connect": False}
    assert results == expected


@pytest.mark.parametrize("form", ["path", "domain"])
def test_javascript_sdk(run_javascript, form):
    results = json.loads(run_javascript(PROGRAMS / "calls.mjs", form, form=form))
    assert results == EXPECTED | ({"signed": "text ü"} if form == "domain" else {})
