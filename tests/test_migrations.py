"""Migrations lead to the tables that the models describe, and back, on the database under test."""

import flask_migrate
import pytest
from sqlalchemy import create_engine, inspect, make_url, text

import panel.models  # noqa: F401
from panel.config import Config
from panel.db import bare_app, db
from tests.conftest import CONFIGURED


@pytest.fixture
def empty(tmp_path):
    """The address of a database without tables."""
    given = CONFIGURED.get("PANEL_TEST_DATABASE_URL")
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


def test_up_and_down(empty, tmp_path):
    app = bare_app(Config(data_dir=tmp_path, database_url=empty, secret_key="test"))
    with app.app_context():
        flask_migrate.upgrade()
        flask_migrate.check()  # ends the process when models and migrations differ
        assert set(inspect(db.engine).get_table_names()) == {*db.metadata.tables, "alembic_version"}
        flask_migrate.downgrade(revision="base")
        assert inspect(db.engine).get_table_names() == ["alembic_version"]
        flask_migrate.upgrade()
        db.engine.dispose()
