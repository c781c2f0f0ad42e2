"""Which tests run on which database when `make test` runs the light tests on SQLite and on PostgreSQL.

Without --split-by-database a run has all tests, but on PostgreSQL those that use no database.
"""

import os
from functools import cache

from tests.support import postgres, slow_proofs

SPLIT_OPTION = "--split-by-database"
POSTGRES_TESTS = (
    "**/test_*faults.py",
    "**/test_*refusals.py",
    "tests/docs/test_schemathesis.py",
    "tests/input_validation/test_pages.py",
    "tests/worker/test_fault_injection.py",
)
"""Tests of malformed input and of nodes' faults. PostgreSQL rejects more values, and statements after an error."""

BOTH_DATABASES_TESTS = (
    "**/test_*limits.py",
    "**/test_*lists.py",
    "**/test_*races.py",
    "**/test_*search.py",
    "tests/alert_rules/test_*.py",
    "tests/billing/test_usage.py",
    "tests/metrics/test_*.py",
    "tests/tasks/test_*.py",
    "tests/test_idempotency.py",
    "tests/test_transactions.py",
    "tests/webhooks/test_*.py",
    "tests/worker/test_*.py",
)
"""Tests of searches, sums over time, locks and queues: what each database does in its own way."""

SQLITE_TESTS = (
    "**/test_*pages.py",
    "tests/accounts/test_operators.py",
    "tests/audit/test_entries.py",
    "tests/billing/test_gate.py",
    "tests/docs/*.py",
    "tests/instances/test_suspended_owner.py",
    "tests/overview/*.py",
    "tests/pages/*.py",
    "tests/test_access.py",
    "tests/test_dialects.py",
    "tests/test_headers.py",
    "tests/test_pages.py",
)
"""Tests of pages, documents and permissions."""

FEW_STATEMENTS_TESTS = (
    "tests/docker_*/*.py",
    "tests/image*/*.py",
    "tests/isos/*.py",
    "tests/microvms/*.py",
    "tests/sandbox_*/*.py",
)
"""Tests that run on SQLite when one database is enough, because it is faster."""

PROOF_NAME = "databases"
"""The slow proof that runs all tests on both."""

ISOLATED_APP_NAMES = {"isolated_app", "isolated_installation"}
"""Names under which modules import tests/support/isolated_app.py."""


def pytest_addoption(parser):
    parser.addoption(
        SPLIT_OPTION, action="store_true", help="Run the tests that need no second database on one of the two only."
    )


def pytest_collection_modifyitems(config, items):
    """Deselect the tests that the lane of the other database runs alone."""
    deselected = [item for item in items if is_left_to_other_lane(item, config.getoption(SPLIT_OPTION))]
    config.hook.pytest_deselected(items=deselected)
    left_out = set(deselected)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption(SPLIT_OPTION) and slow_proofs.has_passed(PROOF_NAME):
        slow_proofs.report_not_run(terminalreporter, PROOF_NAME)


def is_left_to_other_lane(item, is_split):
    """Return whether the lane of the other database runs the test: always if it uses none and this is PostgreSQL's."""
    if not uses_database(item):
        return bool(os.environ.get(postgres.URL_VARIABLE))
    lane = "postgresql" if os.environ.get(postgres.URL_VARIABLE) else "sqlite"
    return is_split and lane not in choose_databases(item.path.relative_to(item.config.rootpath))


@cache
def choose_databases(path):
    """Return the databases that a split run tests a file on.

    While the slow proof is due, both for all but pages, malformed input and faults.
    """
    if any(map(path.match, POSTGRES_TESTS)):
        return {"postgresql"}
    if any(map(path.match, SQLITE_TESTS)):
        return {"sqlite"}
    if any(map(path.match, BOTH_DATABASES_TESTS)) or not slow_proofs.has_passed(PROOF_NAME):
        return {"sqlite", "postgresql"}
    return {"sqlite"} if any(map(path.match, FEW_STATEMENTS_TESTS)) else {"postgresql"}


def uses_database(item):
    """Return whether a test uses the database under test: by a fixture, or by an isolated application."""
    return "database_url" in item.fixturenames or not ISOLATED_APP_NAMES.isdisjoint(vars(item.module))
