"""Run a command with a temporary PostgreSQL server: `python -m tests.support.postgres pytest`.

The server listens on a Unix socket in a directory that is removed afterwards. It refuses to run as root, so it runs as
an unprivileged user. The command fails when it connected to none of the databases that `create_database` makes: tests
that ran on SQLite instead would prove nothing.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy

URL_VARIABLE = "TEST_DATABASE_URL"
"""Without the prefix of the product's settings, because tests/conftest.py removes these from the environment, which the
workers of pytest-xdist inherit."""

SERVER_SETTINGS = (
    "listen_addresses=",
    "max_connections=200",
    "log_connections=on",
    # Nothing needs to survive a crash, and no table is large.
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "autovacuum=off",
    "track_counts=off",
    "track_activities=off",
    "jit=off",
    "plan_cache_mode=force_generic_plan",
)

DATABASE_PREFIX = "test_"
UNPRIVILEGED_USERS = ("postgres", "nobody")


def find_program_folder():
    """Return the folder of PostgreSQL's programs, which Debian does not put into the search path."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    on_path = shutil.which("initdb")
    if not folders and not on_path:
        raise SystemExit("PostgreSQL's server is not installed: apt install postgresql")
    return folders[-1] if folders else Path(on_path).resolve().parent


def make_unprivileged_options():
    """Return Popen options that start a process as an unprivileged user."""
    if os.geteuid() != 0:
        return {}
    existing_users = [entry.pw_name for entry in pwd.getpwall()]
    name = next(user for user in UNPRIVILEGED_USERS if user in existing_users)
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


@contextmanager
def run_server(*settings):
    """Run a server until the block ends, with further settings. Yields the URL of its database `postgres`."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as directory:
        owner = make_unprivileged_options() | {"cwd": directory, "stdin": subprocess.DEVNULL}
        if "user" in owner:
            shutil.chown(directory, owner["user"])
        data = f"{directory}/data"
        initdb = [
            find_program_folder() / "initdb",
            "-D",
            data,
            "--auth=trust",
            "--username=panel",
            "--encoding=UTF8",
            "--no-sync",
        ]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, **owner)
        options = ["-k", directory, *(part for setting in (*SERVER_SETTINGS, *settings) for part in ("-c", setting))]
        with Path(directory, "log").open("w") as log:
            process = subprocess.Popen(
                [find_program_folder() / "postgres", "-D", data, *options], stderr=log, stdout=log, **owner
            )
        try:
            wait_until_ready(process, directory)
            yield f"postgresql+psycopg://panel@/postgres?host={directory}"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def wait_until_ready(process, directory):
    while subprocess.run([find_program_folder() / "pg_isready", "-q", "-h", directory]).returncode:
        if process.poll() is not None:
            raise SystemExit(Path(directory, "log").read_text())
        time.sleep(0.1)


@contextmanager
def create_database(server_url):
    """Yield the URL of a new, empty database of the server."""
    name = f"{DATABASE_PREFIX}{uuid.uuid4().hex}"
    server = sqlalchemy.make_url(server_url)
    with sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"create database {name}")
        try:
            yield server.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.exec_driver_sql(f"drop database {name} with (force)")
            connection.engine.dispose()


def run_command(command):
    """Run the command with the server's URL in the environment. Return its exit status."""
    with run_server() as url:
        status = subprocess.run(command, env=os.environ | {URL_VARIABLE: url}).returncode
        log = Path(sqlalchemy.make_url(url).query["host"], "log")
        if f"database={DATABASE_PREFIX}" not in log.read_text():
            raise SystemExit("The command did not use the PostgreSQL server.")
    return status


if __name__ == "__main__":
    sys.exit(run_command(sys.argv[1:]))
