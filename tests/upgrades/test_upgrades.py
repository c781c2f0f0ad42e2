"""A filled database of every released version is upgraded to this one, on the database under test.

A release adds one dump to this folder (see CONTRIBUTING.md, "A release").
"""

import gzip
import re
import sqlite3
from contextlib import contextmanager
from datetime import UTC, datetime

import flask_migrate
import pytest
from sqlalchemy import MetaData, create_engine, func, insert, select

from panel.bootstrap import create_worker_app, init_migrate
from panel.core import schema_revision
from panel.core.config import ROOT, Config
from panel.core.db import Model, db, session
from tests.support.schema import describe_schema
from tests.upgrades.make_dump import FOLDER, SECRET_KEY

FIRST_VERSION = "0.1.0"
DUMPS = sorted(FOLDER.glob("*.sql.gz"))
CHANGELOG_VERSION = re.compile(r"^## \[?(\d+\.\d+\.\d+)", re.MULTILINE)


@pytest.fixture(params=DUMPS, ids=lambda path: path.name.removesuffix(".sql.gz"))
def release_database(request, tmp_path):
    """The SQLite file of a filled database as a released version made it."""
    path = tmp_path / "release.db"
    with sqlite3.connect(path) as database:
        database.executescript(gzip.decompress(request.param.read_bytes()).decode())
    return path


@contextmanager
def open_database(tmp_path, url):
    app = create_worker_app(Config(data_dir=tmp_path, database_url=url, secret_key=SECRET_KEY))
    init_migrate(app)
    with app.app_context():
        yield
        session.remove()
        db.engine.dispose()


def test_database_of_every_release_is_upgraded(release_database, empty_database, tmp_path):
    with open_database(tmp_path, empty_database):
        if db.engine.dialect.name == "sqlite":
            release_database.rename(db.engine.url.database)
        else:
            copy_database(f"sqlite:///{release_database}", db.engine)
        before = count_rows(db.engine)
        assert set(before.values()) == {2}
        flask_migrate.upgrade()
        flask_migrate.check()  # ends the process when tables and models differ
        after = count_rows(db.engine)
        assert {count for name, count in after.items() if name in before} == {2}
        for mapper in Model.registry.mappers:  # values can still be decrypted and parsed
            rows = session.scalars(select(mapper.class_)).unique().all()
            assert len(rows) == after[mapper.local_table.name]


def test_released_migrations_are_unchanged(release_database, tmp_path):
    """A database of a release and one that is created today are equal at the revision of the release."""
    engine = create_engine(f"sqlite:///{release_database}")
    released = describe_schema(engine)
    with engine.connect() as connection:
        revision = schema_revision.read_database_revisions(connection).pop()
    engine.dispose()
    with open_database(tmp_path, f"sqlite:///{tmp_path / 'today.db'}"):
        flask_migrate.upgrade(revision=revision)
        assert describe_schema(db.engine) == released, "Released migrations must not change: write another one."


def test_every_released_version_has_a_dump():
    """A release has a section in the changelog. Tags are not checked: a clone may lack them."""
    released = {FIRST_VERSION, *CHANGELOG_VERSION.findall((ROOT / "CHANGELOG.md").read_text())}
    assert released <= {path.name.removesuffix(".sql.gz") for path in DUMPS}


def count_rows(engine):
    tables = MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        return {
            table.name: connection.scalar(select(func.count()).select_from(table))
            for table in tables.sorted_tables
            if table.name != "alembic_version"
        }


def copy_database(source_url, target):
    """Create the tables in `target` with today's migrations, at the source's revision, and copy the source's rows."""
    source = create_engine(source_url)
    source_tables, target_tables = MetaData(), MetaData()
    with source.connect() as connection:
        flask_migrate.upgrade(revision=schema_revision.read_database_revisions(connection).pop())
        source_tables.reflect(connection)
        target_tables.reflect(target)
        target_tables.remove(target_tables.tables["alembic_version"])
        with target.begin() as copy:
            for table in target_tables.sorted_tables:
                rows = connection.execute(select(source_tables.tables[table.name])).mappings()
                copy.execute(
                    insert(table), [{name: add_time_zone(value) for name, value in row.items()} for row in rows]
                )
    source.dispose()


def add_time_zone(value):
    """SQLite stores times in UTC, without their zone."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
