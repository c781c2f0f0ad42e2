"""The documents for operators agree with the code."""

import configparser
import re

import pytest

from panel.cli import COMMANDS
from tests.docs.reference_tables import DOCUMENTS, ROOT, read_generated

UNIT_FILES = sorted((ROOT / "docs" / "systemd").glob("*.service"))
SOURCE_FOLDERS = ("panel", "api", "worker", "consoles")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_generated_tables_are_current(name):
    assert read_generated(name) == DOCUMENTS[name](), "Run: python -m tests.docs.reference_tables"


def test_documented_log_events_are_logged():
    table = (ROOT / "docs" / "monitoring.md").read_text().split("Events worth an alert")[1].split("\n## ")[0]
    events = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    code = "".join(path.read_text() for source in SOURCE_FOLDERS for path in (ROOT / source).rglob("*.py"))
    assert len(events) > 5
    assert [event for event in events if f'"{event}"' not in code] == []


def read_unit(path):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(path.read_text())
    return parser


@pytest.mark.parametrize("unit", UNIT_FILES, ids=lambda path: path.name)
def test_units_start_existing_commands(unit):
    command = read_unit(unit)["Service"]["ExecStart"].split()
    assert command[0].endswith("/.venv/bin/panel")
    assert command[1] in COMMANDS


@pytest.mark.parametrize("unit", UNIT_FILES, ids=lambda path: path.name)
def test_units_start_after_local_postgresql_and_redis(unit):
    """systemd stops units in reverse order, so running tasks can still write to the database at shutdown."""
    assert {"postgresql.service", "redis-server.service"} <= set(read_unit(unit)["Unit"]["After"].split())
