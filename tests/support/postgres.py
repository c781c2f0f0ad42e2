"""Runs a command with a PostgreSQL server of its own, which ends with it: `python -m tests.support.postgres pytest`.

The server listens on a Unix socket in a directory that is removed afterwards. It refuses to be root, so it runs as
somebody with fewer rights.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

UNPRIVILEGED_USERS = ("postgres", "nobody")


def find_programs():
    """Where PostgreSQL's programs lie: Debian keeps them out of the search path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    on_path = shutil.which("initdb")
    if not found and not on_path:
        raise SystemExit("PostgreSQL's server is not installed: apt install postgresql")
    return found[-1] if found else Path(on_path).resolve().parent


def unprivileged_options():
    """Options to start a process as somebody who is not root."""
    if os.geteuid() != 0:
        return {}
    there = [entry.pw_name for entry in pwd.getpwall()]
    name = next(user for user in UNPRIVILEGED_USERS if user in there)
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


@contextmanager
def run_server():
    """While the block runs there is a server; gives the address of an empty database."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as made:
        owner = unprivileged_options() | {"cwd": made, "stdin": subprocess.DEVNULL}
        if "user" in owner:
            shutil.chown(made, owner["user"])
        data = f"{made}/data"
        initdb = [
            find_programs() / "initdb",
            "-D",
            data,
            "--auth=trust",
            "--username=panel",
            "--encoding=UTF8",
            "--no-sync",
        ]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, **owner)
        options = ["-k", made, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"]
        with Path(made, "log").open("w") as log:
            process = subprocess.Popen(
                [find_programs() / "postgres", "-D", data, *options], stderr=log, stdout=log, **owner
            )
        try:
            is_ready(process, made)
            yield f"postgresql+psycopg://panel@/postgres?host={made}"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def is_ready(process, directory):
    while subprocess.run([find_programs() / "pg_isready", "-q", "-h", directory]).returncode:
        if process.poll() is not None:
            raise SystemExit(Path(directory, "log").read_text())
        time.sleep(0.1)


if __name__ == "__main__":
    with run_server() as address:
        ended = subprocess.run(sys.argv[1:], env=os.environ | {"PANEL_TEST_DATABASE_URL": address}).returncode
    sys.exit(ended)
