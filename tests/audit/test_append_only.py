"""The database refuses to change or delete entries, in tables of create_all and of the migration."""

import flask_migrate
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from panel.bootstrap import create_worker_app, init_migrate
from panel.core.config import Config
from panel.core.db import db, session
from panel.services import audit

FORBIDDEN_STATEMENTS = ("update audit set person = 'nobody'", "delete from audit")
ENTRY_VALUES = {"person": "x", "person_kind": "nobody", "ip": "192.0.2.1", "action": "x"}


def assert_statement_refused(statement):
    with pytest.raises(DBAPIError, match="only added"), session.begin_nested():
        session.execute(text(statement))


@pytest.mark.parametrize("statement", FORBIDDEN_STATEMENTS)
def test_audit_table_of_create_all_is_append_only(rolled_back_app, statement):
    audit.add(**ENTRY_VALUES)
    assert_statement_refused(statement)


def test_audit_table_of_migration_is_append_only(empty_database, tmp_path):
    app = create_worker_app(Config(data_dir=tmp_path, database_url=empty_database, secret_key="test"))
    init_migrate(app)
    with app.app_context():
        flask_migrate.upgrade()
        audit.add(**ENTRY_VALUES)
        session.commit()
        for statement in (
            *FORBIDDEN_STATEMENTS,
            *(["truncate audit"] if db.engine.dialect.name == "postgresql" else []),
        ):
            assert_statement_refused(statement)
        session.rollback()
        assert len(session.scalars(audit.listing()).all()) == 1
        session.remove()
        db.engine.dispose()
