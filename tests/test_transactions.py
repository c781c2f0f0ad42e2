"""How transactions of a request begin: a read request takes no lock on SQLite and sends no BEGIN on PostgreSQL."""

import pytest
from sqlalchemy import event

from panel.app import create_app
from panel.core.db import allow_writes, begin_request, db, end_request, is_read_only_request
from tests.support.isolated_app import isolated_installation


@pytest.fixture
def committing_app(tmp_path):
    with isolated_installation(tmp_path, create=create_app) as app:
        yield app


@pytest.fixture
def transaction_modes(committing_app):
    """The statements that began transactions: "begin" or "begin immediate", as on SQLite."""
    transaction_modes = set()

    def record(connection, cursor, statement, *_):
        if connection.dialect.name == "postgresql":
            is_autocommit = connection.connection.dbapi_connection.autocommit
            transaction_modes.add("begin" if is_autocommit else "begin immediate")
        elif statement.startswith("begin"):
            transaction_modes.add(statement)

    with committing_app.app_context():
        engine = db.engine
    event.listen(engine, "before_cursor_execute", record)
    yield transaction_modes
    event.remove(engine, "before_cursor_execute", record)


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [("GET", "/api/projects", "begin"), ("POST", "/api/projects", "begin immediate")],
)
def test_request_method_decides_transaction_mode(committing_app, transaction_modes, method, path, mode):
    body = {"json": {"name": "Shop"}} if method == "POST" else {}
    answer = committing_app.test_client().open(
        path, method=method, headers=committing_app.cast.headers("owner"), **body
    )
    assert answer.status_code < 300
    assert mode in transaction_modes
    assert method == "POST" or transaction_modes == {"begin"}
    assert not is_read_only_request()


def test_allow_writes_begins_write_transactions_in_read_request(committing_app, transaction_modes):
    with committing_app.app_context():
        begin_request(is_read_only=True)
        with allow_writes():
            db.session.execute(db.select(1))
        assert is_read_only_request()
        db.session.rollback()
        assert transaction_modes == {"begin immediate"}
        end_request()
