"""While the database is away, full or busy, answers are 503 with an id, where nothing was saved (A5, F5, F6)."""

import sqlite3

import psycopg
import pytest
from sqlalchemy import false, func, select, update
from sqlalchemy.exc import OperationalError

from panel import app as product
from panel.core import database_probe, db
from panel.core.database_errors import Outage, find_outage
from panel.core.db import RequestSession, may_have_committed, session
from panel.models import InstallationValue


def build_sqlite_error(code):
    error = sqlite3.OperationalError("the disk's own words")
    error.sqlite_errorcode = code
    return OperationalError("insert into x", {}, error)


def build_postgresql_error(state, text="terminating"):
    error = psycopg.errors.lookup(state)(text) if state else psycopg.OperationalError(text)
    return OperationalError("insert into x", {}, error)


OUTAGE_CASES = [
    (build_sqlite_error(sqlite3.SQLITE_BUSY), "busy"),
    (build_sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), "busy"),
    (build_sqlite_error(sqlite3.SQLITE_LOCKED), "busy"),
    (build_sqlite_error(sqlite3.SQLITE_FULL), "disk full"),
    (build_sqlite_error(sqlite3.SQLITE_IOERR_WRITE), "disk error"),
    (build_sqlite_error(sqlite3.SQLITE_READONLY), "read-only"),
    (build_sqlite_error(sqlite3.SQLITE_ERROR), None),
    (build_postgresql_error(None, "connection refused"), "away"),
    (build_postgresql_error("57P01"), "shutting down"),
    (build_postgresql_error("57P03"), "shutting down"),
    (build_postgresql_error("53300"), "too many connections"),
    (build_postgresql_error("53100"), "disk full"),
    (build_postgresql_error("53200"), "overloaded"),
    (build_postgresql_error("40P01"), "busy"),
    (build_postgresql_error("25006"), "read-only"),
    (build_postgresql_error("42P01"), None),
    (ValueError("no database"), None),
    (build_sqlite_error(sqlite3.SQLITE_BUSY).orig, "busy"),
    (build_postgresql_error(None, "the connection is lost").orig, "away"),
]


@pytest.mark.parametrize(("error", "problem"), OUTAGE_CASES)
def test_outages_are_distinguished_from_faults(error, problem):
    outage = find_outage(error)
    assert (outage and outage.problem) == problem


@pytest.fixture
def break_commits(rolled_back_app, monkeypatch):
    """Return a function that makes commits, or another session method, raise an error."""

    def fail_with(error, at="commit"):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(RequestSession, at, fail)

    return fail_with


RENAME_BODY = {"name": "Fleet"}


def test_refused_write_is_503_with_retry_after(api_as, break_commits):
    """ENV-14, F5: 503, Retry-After, an id, JSON in the dialect of the path."""
    break_commits(build_sqlite_error(sqlite3.SQLITE_BUSY))
    for account, path, body in (
        ("owner", "/api/projects", RENAME_BODY),
        ("admin", "/api/v1/users", {"email": "n@example.com"}),
    ):
        answer = api_as(account, "POST", path, json=body)
        assert answer.status_code == 503, answer.json
        assert answer.headers["Retry-After"] == "10"
        assert answer.json["success"] is False
        assert "Nothing was changed" in answer.json["message"]
        assert answer.headers["X-Request-Id"] in answer.json["message"]
        assert "locked" not in answer.text


def test_full_disk_at_commit_is_503(api_as, break_commits):
    """F6: the error comes when the transaction ends, after the view has answered."""
    break_commits(build_sqlite_error(sqlite3.SQLITE_FULL))
    answer = api_as("owner", "POST", "/api/projects", json=RENAME_BODY)
    assert answer.status_code == 503
    assert answer.headers["X-Request-Id"] in answer.json["message"]


def test_commit_with_lost_answer_is_500_without_retry_after(api_as, break_commits, monkeypatch):
    """The connection was lost while the database saved: 500 with an id, no Retry-After."""
    monkeypatch.setattr(product, "may_have_committed", lambda outage: not outage.is_commit_refused)
    break_commits(build_postgresql_error(None, "server closed the connection unexpectedly"))
    answer = api_as("owner", "POST", "/api/projects", json=RENAME_BODY)
    assert answer.status_code == 500
    assert "Retry-After" not in answer.headers
    assert "may or may not" in answer.json["message"]
    assert answer.headers["X-Request-Id"] in answer.json["message"]


def test_may_have_committed_by_state_of_request(rolled_back_app):
    lost_connection, full_disk = Outage("away", ""), Outage("disk full", "")
    db.begin_request(is_read_only=False)
    assert not may_have_committed(lost_connection)
    db.note_commit_begun(None)
    assert may_have_committed(lost_connection)
    assert not may_have_committed(full_disk)
    session.commit()
    assert may_have_committed(full_disk)
    db.begin_request(is_read_only=True)
    db.note_commit_begun(None)
    assert not may_have_committed(lost_connection)
    db.end_request()


def test_error_page_needs_no_database(browser_as, break_commits):
    """The page shows no account name, because the account cannot be read."""
    browser = browser_as("owner")
    break_commits(build_sqlite_error(sqlite3.SQLITE_FULL))
    break_commits(build_sqlite_error(sqlite3.SQLITE_FULL), at="execute")
    answer = browser.get("/projects")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "10"
    assert answer.headers["X-Request-Id"] in answer.text
    assert "Nothing was changed" in answer.text


def test_outage_logs_one_line(api_as, break_commits, monkeypatch):
    log_lines = []
    monkeypatch.setattr(product.log, "error", lambda event, **options: log_lines.append((event, options["problem"])))
    monkeypatch.setattr(product.Flask, "log_exception", lambda *_: log_lines.append("traceback"))
    break_commits(build_sqlite_error(sqlite3.SQLITE_BUSY))
    api_as("owner", "POST", "/api/projects", json=RENAME_BODY)
    assert log_lines == [("database_unavailable", "busy")]


def test_openapi_documents_describe_503(app):
    from api.docs import build_openapi_document

    for surface in ("USER", "ADMIN"):
        document = build_openapi_document(app, surface)
        for methods in document["paths"].values():
            for operation in methods.values():
                assert not isinstance(operation, dict) or "503" in operation.get("responses", {"503": ""})
        assert "Retry-After" in document["components"]["responses"]["Unavailable"]["headers"]


def test_probe_row_is_inserted_once_by_concurrent_processes(app, rolled_back_app, monkeypatch):
    """PostgreSQL refuses the second row when it is inserted, not at the commit."""
    bind = session.get_bind()
    database_probe.write_probe_row(bind)
    statement = update(InstallationValue).where(false())  # as if the other process had not inserted it yet
    monkeypatch.setattr(database_probe, "update", lambda model: statement)
    database_probe.write_probe_row(bind)
    rows = select(func.count()).where(InstallationValue.name == database_probe.PROBE_ROW)
    assert session.scalar(rows) == 1
