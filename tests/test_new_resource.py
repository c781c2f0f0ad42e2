"""`make new-resource`: its skeleton passes the checks and its own tests, in a copy of the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from panel.core.config import ROOT

TOOLS = Path(sys.executable).parent
IGNORED_FILES = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "vendor", "var")
MAX_EXISTING_FILES = 8


@pytest.fixture
def checkout_copy(tmp_path):
    checkout_copy = tmp_path / "copy"
    shutil.copytree(ROOT, checkout_copy, ignore=IGNORED_FILES)
    for name in ("node_modules", "vendor"):
        (checkout_copy / "static" / name).symlink_to(ROOT / "static" / name)
    return checkout_copy


@pytest.fixture
def run_in_copy(checkout_copy, tmp_path):
    def run_command(*command):
        environment = {
            **os.environ,
            "PATH": f"{TOOLS}:{os.environ['PATH']}",
            "PYTHONPATH": str(checkout_copy),
            "PANEL_DATA_DIR": str(tmp_path / "data"),
        }
        done = subprocess.run(command, cwd=checkout_copy, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    return run_command


def read_files(folder):
    paths = (path for path in folder.rglob("*") if path.is_file() and not {"__pycache__", "static"} & set(path.parts))
    return {path: path.read_bytes() for path in paths}


@pytest.mark.processes
@pytest.mark.slow_proof("new-resource")
def test_new_resource_skeleton_passes_checks_and_changes_few_files(checkout_copy, run_in_copy):
    before = read_files(checkout_copy)
    run_in_copy(sys.executable, "-m", "tests.support.new_resource", "load_tests", "--task", "--group", "compute")
    changed = [path for path, content in before.items() if path.read_bytes() != content]
    assert len(changed) <= MAX_EXISTING_FILES, changed
    run_in_copy(TOOLS / "ruff", "check", "--no-cache", ".")
    run_in_copy(TOOLS / "ruff", "format", "--no-cache", "--check", ".")
    run_in_copy(TOOLS / "lint-imports", "--no-cache")
    run_in_copy(TOOLS / "djlint", "--lint", "--quiet", "templates")
    for arguments in (("db", "upgrade"), ("db", "check"), ("openapi", "check")):
        run_in_copy(sys.executable, "-m", "panel.cli", *arguments)
    run_in_copy(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("tests/load_tests", "tests/test_architecture.py", "tests/docs/test_translations.py"),
        "tests/test_access.py::test_unknown_and_foreign_ids_return_the_same_404",
        "tests/worker/test_fault_injection.py::test_every_task_kind_has_fault_cases",
        "tests/test_pages.py::test_navigation_entries_have_known_icons_and_different_positions",
    )
