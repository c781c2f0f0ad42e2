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


def sqlite_error(code):
    error = sqlite3.OperationalError("the disk's own words")
    error.sqlite_errorcode = code
    return OperationalError("insert into x", {}, error)


def postgresql_error(state, words="terminating"):
    error = psycopg.errors.lookup(state)(words) if state else psycopg.OperationalError(words)
    return OperationalError("insert into x", {}, error)


PROBLEMS = [
    (sqlite_error(sqlite3.SQLITE_BUSY), "busy"),
    (sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), "busy"),
    (sqlite_error(sqlite3.SQLITE_LOCKED), "busy"),
    (sqlite_error(sqlite3.SQLITE_FULL), "disk full"),
    (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), "disk error"),
    (sqlite_error(sqlite3.SQLITE_READONLY), "read-only"),
    (sqlite_error(sqlite3.SQLITE_ERROR), None),
    (postgresql_error(None, "connection refused"), "away"),
    (postgresql_error("57P01"), "shutting down"),
    (postgresql_error("57P03"), "shutting down"),
    (postgresql_error("53300"), "too many connections"),
    (postgresql_error("53100"), "disk full"),
    (postgresql_error("53200"), "overloaded"),
    (postgresql_error("40P01"), "busy"),
    (postgresql_error("25006"), "read-only"),
    (postgresql_error("42P01"), None),
    (ValueError("no database"), None),
    (sqlite_error(sqlite3.SQLITE_BUSY).orig, "busy"),
    (postgresql_error(None, "the connection is lost").orig, "away"),
]


@pytest.mark.parametrize(("error", "problem"), PROBLEMS)
def test_outages_are_distinguished_from_faults(error, problem):
    found = find_outage(error)
    assert (found and found.problem) == problem


@pytest.fixture
def break_commits(rolled_back_app, monkeypatch):
    """Commits fail with an error; what the answers log is kept."""

    def fail_with(error, at="commit"):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(RequestSession, at, fail)

    return fail_with


RENAME_BODY = {"name": "Fleet"}


def test_a_write_that_was_not_saved_may_be_repeated(api_as, break_commits):
    """ENV-14, F5: 503, Retry-After, an id, JSON in the dialect of the path."""
    break_commits(sqlite_error(sqlite3.SQLITE_BUSY))
    for who, path, body in (
        ("owner", "/api/projects", RENAME_BODY),
        ("admin", "/api/v1/users", {"email": "n@example.com"}),
    ):
        answer = api_as(who, "POST", path, json=body)
        assert answer.status_code == 503, answer.json
        assert answer.headers["Retry-After"] == "10"
        assert answer.json["success"] is False
        assert "Nothing was changed" in answer.json["message"]
        assert answer.headers["X-Request-Id"] in answer.json["message"]
        assert "locked" not in answer.text


def test_a_full_disk_is_told_in_our_words(api_as, break_commits):
    """F6: the error comes when the transaction ends, after the view has answered."""
    break_commits(sqlite_error(sqlite3.SQLITE_FULL))
    answer = api_as("owner", "POST", "/api/projects", json=RENAME_BODY)
    assert answer.status_code == 503
    assert answer.headers["X-Request-Id"] in answer.json["message"]


def test_a_commit_without_an_answer_is_not_to_be_repeated(api_as, break_commits, monkeypatch):
    """The connection was lost while the database saved: 500 with an id, no Retry-After."""
    monkeypatch.setattr(product, "may_have_committed", lambda outage: not outage.is_commit_refused)
    break_commits(postgresql_error(None, "server closed the connection unexpectedly"))
    answer = api_as("owner", "POST", "/api/projects", json=RENAME_BODY)
    assert answer.status_code == 500
    assert "Retry-After" not in answer.headers
    assert "may or may not" in answer.json["message"]
    assert answer.headers["X-Request-Id"] in answer.json["message"]


def test_when_a_commit_may_have_been_done(rolled_back_app):
    lost, refused = Outage("away", ""), Outage("disk full", "")
    db.begin_request(is_read_only=False)
    assert not may_have_committed(lost)
    db.note_commit_begun(None)
    assert may_have_committed(lost)
    assert not may_have_committed(refused)
    session.commit()
    assert may_have_committed(refused)
    db.begin_request(is_read_only=True)
    db.note_commit_begun(None)
    assert not may_have_committed(lost)
    db.end_request()


def test_pages_say_it_without_the_database(browser_as, break_commits):
    """The page shows nobody's name: whoever asks cannot be looked up."""
    browser = browser_as("owner")
    break_commits(sqlite_error(sqlite3.SQLITE_FULL))
    break_commits(sqlite_error(sqlite3.SQLITE_FULL), at="execute")
    answer = browser.get("/projects")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "10"
    assert answer.headers["X-Request-Id"] in answer.text
    assert "Nothing was changed" in answer.text


def test_one_line_is_logged(api_as, break_commits, monkeypatch):
    logged = []
    monkeypatch.setattr(product.log, "error", lambda event, **facts: logged.append((event, facts["problem"])))
    monkeypatch.setattr(product.Flask, "log_exception", lambda *_: logged.append("traceback"))
    break_commits(sqlite_error(sqlite3.SQLITE_BUSY))
    api_as("owner", "POST", "/api/projects", json=RENAME_BODY)
    assert logged == [("database_unavailable", "busy")]


def test_documents_name_it(app):
    from api.docs import openapi_document

    for surface in ("USER", "ADMIN"):
        document = openapi_document(app, surface)
        for methods in document["paths"].values():
            for operation in methods.values():
                assert not isinstance(operation, dict) or "503" in operation.get("responses", {"503": ""})
        assert "Retry-After" in document["components"]["responses"]["Unavailable"]["headers"]


def test_processes_that_insert_the_probe_row_at_once(app, rolled_back_app, monkeypatch):
    """PostgreSQL refuses the second row when it is inserted, not at the commit."""
    bind = session.get_bind()
    database_probe.write_probe_row(bind)
    statement = update(InstallationValue).where(false())  # as if the other process had not inserted it yet
    monkeypatch.setattr(database_probe, "update", lambda model: statement)
    database_probe.write_probe_row(bind)
    rows = select(func.count()).where(InstallationValue.name == database_probe.PROBE_ROW)
    assert session.scalar(rows) == 1
