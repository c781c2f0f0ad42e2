"""Copy the database while the panel runs, and restore it.

SQLite: its online backup. PostgreSQL: pg_dump and pg_restore, in one transaction each.
"""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url, text

from panel.core.config import Config
from panel.core.db import db
from panel.core.errors import Problem

PROGRAM_MISSING_MESSAGE = (
    "The program {} is missing. Install PostgreSQL's client of the server's version (postgresql-client)."
)


def get_sqlite_path(config: Config):
    return Path(make_url(config.database_url).database or "")


def count_rows(connection):
    """Return the number of rows of each table, within the connection's transaction."""
    tables = connection.execute(text(LIST_TABLES[connection.dialect.name])).scalars().all()
    return {name: connection.execute(text(f'select count(*) from "{name}"')).scalar() for name in sorted(tables)}


LIST_TABLES = {
    "sqlite": "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'",
    "postgresql": "select tablename from pg_tables where schemaname = 'public'",
}


def copy_database(config: Config, target: Path):
    """Write a consistent copy to `target`. Return its revisions and the number of rows of each table."""
    return copy_sqlite(config, target) if config.is_sqlite else copy_postgresql(config, target)


def copy_sqlite(config, target):
    with closing(sqlite3.connect(get_sqlite_path(config))) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        copy.execute("pragma journal_mode = delete")
    return inspect_sqlite(target)


def inspect_sqlite(file):
    """Return the revisions and row counts of a copy, after SQLite's integrity check. Raise Problem when it fails."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as copy:
        try:
            if (result := copy.execute("pragma integrity_check").fetchone()[0]) != "ok":
                raise Problem(f"The database in the backup is damaged: {result}")
            names = [row[0] for row in copy.execute(LIST_TABLES["sqlite"])]
            counts = {name: copy.execute(f'select count(*) from "{name}"').fetchone()[0] for name in sorted(names)}
            revisions = [row[0] for row in copy.execute("select version_num from alembic_version")]
        except sqlite3.DatabaseError as error:
            raise Problem(f"The database in the backup cannot be read: {error}") from None
    return revisions, counts


def copy_postgresql(config, target):
    with db.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        snapshot = connection.execute(text("select pg_export_snapshot()")).scalar()
        revisions = connection.execute(text("select version_num from alembic_version")).scalars().all()
        counts = count_rows(connection)
        run_postgresql_program(
            "pg_dump", config, "--format=custom", "--no-owner", "--no-acl", f"--snapshot={snapshot}", f"--file={target}"
        )
    return list(revisions), counts


def count_dumped_rows(file):
    """Return the number of rows of each table in a PostgreSQL dump."""
    program = find_program("pg_restore")
    command = [program, "--data-only", "--file=-", str(file)]
    counts, table = {}, None
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for line in process.stdout:
            if table is None and line.startswith(b"COPY "):
                table = line.split()[1].decode().rpartition(".")[2].strip('"')
                counts[table] = 0
            elif table is not None and line == b"\\.\n":
                table = None
            elif table is not None:
                counts[table] += 1
    if process.returncode:
        raise Problem("The database in the backup cannot be read by pg_restore.")
    return counts


def restore_postgresql(config, file):
    """Restore a dump in one transaction."""
    options = ("--single-transaction", "--exit-on-error", "--clean", "--if-exists", "--no-owner", "--no-acl")
    run_postgresql_program("pg_restore", config, *options, file)


def run_postgresql_program(name, config, *arguments):
    """Run a program of PostgreSQL's client for the panel's database. Raise Problem when it fails. The password is
    passed in the environment, because other users can see a process's arguments."""
    url = make_url(config.database_url).set(drivername="postgresql")
    environ = dict(os.environ) | ({"PGPASSWORD": url.password} if url.password else {})
    address = url.set(password=None).render_as_string(hide_password=False)
    result = subprocess.run(
        [find_program(name), f"--dbname={address}", *map(str, arguments)], env=environ, capture_output=True, text=True
    )
    if result.returncode:
        raise Problem(f"{name} failed: {result.stderr.strip()[-1000:]}")


def find_program(name):
    if program := shutil.which(name):
        return program
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if not versions:
        raise Problem(PROGRAM_MISSING_MESSAGE.format(name))
    return str(versions[-1])
