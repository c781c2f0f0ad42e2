"""How the transactions of a request begin: a reading one takes no lock on SQLite and needs no BEGIN on PostgreSQL."""

import pytest
from sqlalchemy import event

from panel.app import create_app
from panel.core.db import allow_writes, begin_request, db, end_request, is_read_only_request
from tests.support.isolated_app import isolated_installation


@pytest.fixture
def site(tmp_path):
    with isolated_installation(tmp_path, create=create_app) as app:
        yield app


@pytest.fixture
def modes(site):
    """How the transactions began: "begin" or "begin immediate" of SQLite, the isolation level of PostgreSQL."""
    modes = set()

    def record(connection, cursor, statement, *_):
        if connection.dialect.name == "postgresql":
            modes.add("begin" if connection.get_isolation_level() == "AUTOCOMMIT" else "begin immediate")
        elif statement.startswith("begin"):
            modes.add(statement)

    with site.app_context():
        engine = db.engine
    event.listen(engine, "before_cursor_execute", record)
    yield modes
    event.remove(engine, "before_cursor_execute", record)


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [("GET", "/api/projects", "begin"), ("POST", "/api/projects", "begin immediate")],
)
def test_a_request_s_method_decides_how_its_transactions_begin(site, modes, method, path, mode):
    body = {"json": {"name": "Shop"}} if method == "POST" else {}
    answer = site.test_client().open(path, method=method, headers=site.cast.headers("owner"), **body)
    assert answer.status_code < 300
    assert mode in modes
    assert method == "POST" or modes == {"begin"}
    assert not is_read_only_request()


def test_a_reading_request_that_may_write_begins_writing_transactions(site, modes):
    with site.app_context():
        begin_request(is_read_only=True)
        with allow_writes():
            db.session.execute(db.select(1))
        assert is_read_only_request()
        db.session.rollback()
        assert modes == {"begin immediate"}
        end_request()
