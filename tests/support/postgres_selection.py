"""Which tests run in the PostgreSQL lane: enough that every SQL statement is executed by at least two tests.

On PostgreSQL most light tests would only repeat statements that other tests have executed there.
`tests/postgres_omitted.txt` lists the test functions that the lane leaves out; a new test is in no list, so it
runs. `make postgres-selection` runs all of them, records their statements (`--record-statements`) and writes the file.
"""

import json
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

OMITTED_PATH = Path(__file__).resolve().parents[1] / "postgres_omitted.txt"
MIN_TESTS_PER_STATEMENT = 2
MALFORMED_INPUT_PATHS = ("tests/input_validation/", "tests/docs/test_schemathesis.py")
"""Tests that run on PostgreSQL only, because its types are strict; see the target light-tests of the Makefile."""
FOLDER_OPTION, SELECTION_OPTION = "--record-statements", "--postgres-selection"
VARIABLE_PARTS = re.compile(r"IN \([^)]*\)|sa_savepoint_\d+")
"""Parts of a statement that differ between executions of the same one."""


def pytest_addoption(parser):
    parser.addoption(SELECTION_OPTION, action="store_true", help="leave out what tests/postgres_omitted.txt lists")
    parser.addoption(FOLDER_OPTION, metavar="FOLDER", help="write the SQL statements of each test into this folder")


def pytest_configure(config):
    if folder := config.getoption(FOLDER_OPTION):
        config.pluginmanager.register(StatementRecorder(Path(folder)))


def pytest_collection_modifyitems(config, items):
    if config.getoption(SELECTION_OPTION):
        omitted = set(OMITTED_PATH.read_text().splitlines())
        deselected = [item for item in items if get_function_name(item.nodeid) in omitted]
        items[:] = [item for item in items if get_function_name(item.nodeid) not in omitted]
        config.hook.pytest_deselected(items=deselected)


def get_function_name(node_id):
    """Return the id of a test without its parameters."""
    return node_id.partition("[")[0]


class StatementRecorder:
    """Writes one JSON line for each test: its function, its CPU time in seconds and its statements."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.folder, self.file, self.statements = folder, None, None
        event.listen(Engine, "before_cursor_execute", self.add_statement)

    def add_statement(self, connection, cursor, statement, *_):
        if self.statements is not None:
            self.statements.add(VARIABLE_PARTS.sub("…", statement))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.file = self.file or self.folder.joinpath(f"{time.time_ns()}.jsonl").open("w")
        self.statements, start = set(), time.process_time()
        try:
            return (yield)
        finally:
            record = [get_function_name(item.nodeid), time.process_time() - start, sorted(self.statements)]
            self.file.write(json.dumps(record) + "\n")
            self.file.flush()
            self.statements = None


def select_omitted(records):
    """Return the functions that may be left out, the most expensive first, so that every statement is still executed by
    `MIN_TESTS_PER_STATEMENT` others, or by all that execute it."""
    seconds, statements = Counter(), defaultdict(set)
    for function, test_seconds, test_statements in records:
        seconds[function] += test_seconds
        statements[function].update(test_statements)
    executions = Counter(statement for found in statements.values() for statement in found)
    omitted = []
    for function, _ in seconds.most_common():
        if not function.startswith(MALFORMED_INPUT_PATHS) and all(
            executions[statement] > MIN_TESTS_PER_STATEMENT for statement in statements[function]
        ):
            executions.subtract(statements[function])
            omitted.append(function)
    return omitted


def write_omitted(folder):
    lines = [line for path in Path(folder).glob("*.jsonl") for line in path.read_text().splitlines()]
    OMITTED_PATH.write_text("\n".join(sorted(select_omitted(map(json.loads, lines)))) + "\n")


if __name__ == "__main__":
    write_omitted(sys.argv[1])
