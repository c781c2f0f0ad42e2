"""`make new-resource`: its skeleton passes the checks and its own tests, in a copy of the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from panel.core.config import ROOT

TOOLS = Path(sys.executable).parent
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "vendor", "var")
MAX_EXISTING_FILES = 8


@pytest.fixture
def copy(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=NOT_COPIED)
    for name in ("node_modules", "vendor"):
        (copy / "static" / name).symlink_to(ROOT / "static" / name)
    return copy


@pytest.fixture
def run_in(copy, tmp_path):
    def run(*command):
        environment = {
            **os.environ,
            "PATH": f"{TOOLS}:{os.environ['PATH']}",
            "PYTHONPATH": str(copy),
            "PANEL_DATA_DIR": str(tmp_path / "data"),
        }
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    return run


def read_files(folder):
    paths = (path for path in folder.rglob("*") if path.is_file() and not {"__pycache__", "static"} & set(path.parts))
    return {path: path.read_bytes() for path in paths}


@pytest.mark.processes
def test_skeleton_of_a_resource_passes_the_checks_and_touches_few_existing_files(copy, run_in):
    before = read_files(copy)
    run_in(sys.executable, "-m", "tests.support.new_resource", "load_tests", "--task", "--group", "compute")
    changed = [path for path, content in before.items() if path.read_bytes() != content]
    assert len(changed) <= MAX_EXISTING_FILES, changed
    run_in(TOOLS / "ruff", "check", "--no-cache", ".")
    run_in(TOOLS / "ruff", "format", "--no-cache", "--check", ".")
    run_in(TOOLS / "lint-imports", "--no-cache")
    run_in(TOOLS / "djlint", "--lint", "--quiet", "templates")
    for arguments in (("db", "upgrade"), ("db", "check"), ("openapi", "check")):
        run_in(sys.executable, "-m", "panel.cli", *arguments)
    run_in(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("tests/load_tests", "tests/test_architecture.py"),
        "tests/test_access.py::test_unknown_and_foreign_ids_are_the_same_404",
        "tests/worker/test_fault_injection.py::test_every_task_kind_has_fault_cases",
        "tests/test_pages.py::test_navigation_entries_have_known_icons_and_different_positions",
    )
