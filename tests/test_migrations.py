"""Migrations create the tables of the models and downgrade to an empty database, on the database under test."""

import shutil
from pathlib import Path

import flask_migrate
import pytest
from flask import current_app
from sqlalchemy import Column, Integer, MetaData, String, inspect, text

import panel.models  # noqa: F401
from panel.bootstrap import create_worker_app, init_migrate
from panel.core import clock
from panel.core.config import Config
from panel.core.db import db, session
from panel.models import Account
from tests.support.schema import describe_schema


@pytest.fixture
def database(empty_database, tmp_path):
    """An application with an empty database."""
    app = create_worker_app(Config(data_dir=tmp_path, database_url=empty_database, secret_key="test"))
    init_migrate(app)
    with app.app_context():
        yield db
        session.remove()
        db.engine.dispose()


def test_migrations_upgrade_and_downgrade(database):
    flask_migrate.upgrade()
    flask_migrate.check()  # ends the process when models and migrations differ
    migrated = describe_schema(db.engine)
    flask_migrate.downgrade(revision="base")
    assert inspect(db.engine).get_table_names() == ["alembic_version"]
    db.create_all()
    assert migrated == describe_schema(db.engine)


class ChangedTables:
    """The database with two more columns in two of its tables."""

    def __init__(self):
        self.metadata = MetaData(naming_convention=db.metadata.naming_convention)
        for table in db.metadata.sorted_tables:
            table.to_metadata(self.metadata)
        for name in ("accounts", "isos"):
            self.metadata.tables[name].append_column(Column("max_shops", Integer, default=3, nullable=False))
            self.metadata.tables[name].append_column(Column("shop", String(20), default="", nullable=False))

    @property
    def engine(self):
        return db.engine


def test_generated_migration_fills_new_columns_and_leaves_no_default(database, tmp_path):
    migrations = str(shutil.copytree(Path(current_app.extensions["migrate"].directory), tmp_path / "migrations"))
    flask_migrate.upgrade(directory=migrations)
    before = describe_schema(db.engine)
    session.add(Account(email="a@example.com", created_at=clock.now()))
    session.commit()
    current_app.extensions["migrate"].db = ChangedTables()
    flask_migrate.migrate(directory=migrations, message="add shops")
    flask_migrate.upgrade(directory=migrations)
    flask_migrate.check(directory=migrations)
    assert session.execute(text("select max_shops, shop from accounts")).all() == [(3, "")]
    session.commit()
    assert {column["default"] for column in inspect(db.engine).get_columns("accounts")} == {None}
    flask_migrate.downgrade(directory=migrations)
    assert describe_schema(db.engine) == before
