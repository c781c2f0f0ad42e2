"""A throw-away PostgreSQL on a socket in a directory."""

import contextlib
import glob
import os
import shutil
import subprocess


@contextlib.contextmanager
def server(directory):
    """The address of an empty database, as the user postgres where we are root (PostgreSQL refuses to run as root)."""
    home = directory / "postgresql"
    home.mkdir()
    bin_ = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
    if os.geteuid() == 0:
        shutil.chown(home, "postgres", "postgres")
        directory.chmod(0o711)
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    quiet = {"stdout": subprocess.DEVNULL, "cwd": home, "check": True}
    subprocess.run([*user, f"{bin_}/initdb", "-D", home / "data", "-A", "trust", "-U", "postgres"], **quiet)
    settings = f"-c listen_addresses= -c unix_socket_directories={home} -c fsync=off -c max_connections=200"
    control = [*user, f"{bin_}/pg_ctl", "-D", home / "data", "-w", "-l", home / "log"]
    subprocess.run([*control, "-o", settings, "start"], **quiet)
    try:
        yield f"postgresql://postgres@/postgres?host={home}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **quiet)
