"""Migrations lead to the tables that the models describe, and back, on the database under test."""

from datetime import datetime

import flask_migrate
import pytest
from sqlalchemy import JSON, MetaData, create_engine, insert, inspect, make_url, text

import panel.models  # noqa: F401
from panel.core import clock
from panel.core.config import Config
from panel.core.db import create_worker_app, db, init_migrate
from tests.conftest import PANEL_ENVIRONMENT

FIRST_REVISION = "ec4a282d50b5"


@pytest.fixture
def empty_database(tmp_path):
    """The address of a database without tables."""
    given = PANEL_ENVIRONMENT.get("PANEL_TEST_DATABASE_URL")
    if not given:
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    engine = create_engine(given, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("create database migrations"))
    yield make_url(given).set(database="migrations").render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text("drop database migrations with (force)"))
    engine.dispose()


def test_migrations_upgrade_and_downgrade(empty_database, tmp_path):
    app = create_worker_app(Config(data_dir=tmp_path, database_url=empty_database, secret_key="test"))
    init_migrate(app)
    with app.app_context():
        flask_migrate.upgrade()
        flask_migrate.check()  # ends the process when models and migrations differ
        assert set(inspect(db.engine).get_table_names()) == {*db.metadata.tables, "alembic_version"}
        flask_migrate.downgrade(revision="base")
        assert inspect(db.engine).get_table_names() == ["alembic_version"]
        flask_migrate.upgrade()
        db.engine.dispose()


def test_migrations_keep_rows(empty_database, tmp_path):
    """An installation of the first release, with a row in every table, is brought up to date and back."""
    app = create_worker_app(Config(data_dir=tmp_path, database_url=empty_database, secret_key="test"))
    init_migrate(app)
    with app.app_context():
        flask_migrate.upgrade(revision=FIRST_REVISION)
        filled = fill_tables(db.engine)
        flask_migrate.upgrade()
        assert count_rows(db.engine, filled) == dict.fromkeys(filled, 1)
        flask_migrate.downgrade(revision=FIRST_REVISION)
        assert count_rows(db.engine, filled) == dict.fromkeys(filled, 1)
        db.engine.dispose()


def fill_tables(engine):
    """One row in each table, with what may not be empty. Says which tables there are."""
    tables = MetaData()
    tables.reflect(engine, resolve_fks=True)
    tables.remove(tables.tables["alembic_version"])
    with engine.begin() as connection:
        for table in tables.sorted_tables:
            connection.execute(insert(table).values({c.name: sample_value(c) for c in table.c if not c.nullable}))
    return [table.name for table in tables.sorted_tables]


def sample_value(column):
    """A value of the column's type; every id is the same, so that rows refer to each other."""
    if isinstance(column.type, JSON):
        return []
    kind = column.type.python_type
    return clock.now() if kind is datetime else kind(1)


def count_rows(engine, tables):
    with engine.connect() as connection:
        return {name: connection.scalar(text(f"select count(*) from {name}")) for name in tables}
