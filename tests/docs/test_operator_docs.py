"""What the documents for operators list is what the code has."""

import configparser
import re

import pytest

from panel.cli import COMMANDS
from tests.docs.reference_tables import DOCUMENTS, ROOT, read_generated

UNITS = sorted((ROOT / "docs" / "systemd").glob("*.service"))
SOURCES = ("panel", "api", "worker", "consoles")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_generated_tables_are_current(name):
    assert read_generated(name) == DOCUMENTS[name](), "Run: python -m tests.docs.reference_tables"


def test_log_events_to_watch_are_logged_somewhere():
    table = (ROOT / "docs" / "monitoring.md").read_text().split("Events worth an alert")[1].split("\n## ")[0]
    events = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    code = "".join(path.read_text() for source in SOURCES for path in (ROOT / source).rglob("*.py"))
    assert len(events) > 5
    assert [event for event in events if f'"{event}"' not in code] == []


def read_unit(path):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(path.read_text())
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_start_commands_that_exist(unit):
    words = read_unit(unit)["Service"]["ExecStart"].split()
    assert words[0].endswith("/.venv/bin/panel")
    assert words[1] in COMMANDS


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_stop_before_a_database_and_redis_of_the_machine(unit):
    """Otherwise running tasks cannot end when the machine is turned off."""
    assert {"postgresql.service", "redis-server.service"} <= set(read_unit(unit)["Unit"]["After"].split())
