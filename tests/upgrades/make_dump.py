"""Write the dump of a filled database of this version: `python -m tests.upgrades.make_dump`, once for each release.

Each table has two rows: one with a value in every column, one with only the required values. The dump is SQLite's text,
with tables, rows and revision as this version made them; test_upgrades.py upgrades it with the migrations of later
versions.
"""

import gzip
import sqlite3
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import flask_migrate
from sqlalchemy import JSON, TypeDecorator, insert

import panel.models  # noqa: F401  (declares the tables)
from panel import __version__
from panel.bootstrap import create_worker_app, init_migrate
from panel.core.config import Config
from panel.core.db import Money, db

FOLDER = Path(__file__).parent
SECRET_KEY = "test"
"""Encrypts the columns of the dumps."""
CHECKED_COLUMNS = {"media_downloads": ({"image_id": None}, {"image_id": "2"})}
"""Values that check constraints require, for the two rows of a table."""
SAMPLE_TIME = datetime(2026, 11, 23, tzinfo=UTC)


def build_sample_value(column, number):
    """Return a value of the column's type. Ids are the row's number, so rows refer to each other."""
    column_type = column.type
    if isinstance(column_type, JSON):
        return []
    if isinstance(column_type, Money):
        return Decimal(number)
    column_type = (column_type.impl_instance if isinstance(column_type, TypeDecorator) else column_type).python_type
    fixed_values = {datetime: SAMPLE_TIME, date: SAMPLE_TIME.date(), bool: number == 1}
    return fixed_values[column_type] if column_type in fixed_values else column_type(number)


def fill_tables():
    """Insert two rows into each table, numbered 1 (all columns) and 2 (required columns)."""
    for table in db.metadata.sorted_tables:
        for number in (1, 2):
            values = {c.name: build_sample_value(c, number) for c in table.c if number == 1 or not c.nullable}
            values |= CHECKED_COLUMNS.get(table.name, ({}, {}))[number - 1]
            db.session.execute(insert(table).values(values))
    db.session.commit()


def make_dump(path):
    """Create a database with this version's migrations, fill it and write its dump."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_worker_app(Config(data_dir=Path(folder), database_url="", secret_key=SECRET_KEY))
        init_migrate(app)
        with app.app_context():
            flask_migrate.upgrade()
            fill_tables()
            file = db.engine.url.database
            db.session.remove()
            db.engine.dispose()
        with sqlite3.connect(file) as database:
            dump = "\n".join(database.iterdump())
    path.write_bytes(gzip.compress(dump.encode(), mtime=0))


if __name__ == "__main__":
    make_dump(FOLDER / f"{__version__.partition('.dev')[0]}.sql.gz")
