"""Migrations create the tables of the models and downgrade to an empty database, on the database under test."""

import flask_migrate
from sqlalchemy import inspect

import panel.models  # noqa: F401
from panel.bootstrap import create_worker_app, init_migrate
from panel.core.config import Config
from panel.core.db import db
from tests.support.schema import describe_schema


def test_migrations_upgrade_and_downgrade(empty_database, tmp_path):
    app = create_worker_app(Config(data_dir=tmp_path, database_url=empty_database, secret_key="test"))
    init_migrate(app)
    with app.app_context():
        flask_migrate.upgrade()
        flask_migrate.check()  # ends the process when models and migrations differ
        migrated = describe_schema(db.engine)
        flask_migrate.downgrade(revision="base")
        assert inspect(db.engine).get_table_names() == ["alembic_version"]
        db.create_all()
        assert migrated == describe_schema(db.engine)
        db.engine.dispose()
