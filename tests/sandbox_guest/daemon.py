"""The sandbox daemon as a process of its own, without the packages of the product."""

import contextlib
import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

from tests.sandbox_guest.raw_client import TOKEN

PACKAGE_PARENT = Path(__file__).parents[2] / "worker"
USER = pwd.getpwuid(os.geteuid())


@contextlib.contextmanager
def run_daemon(identity_path, *options):
    """Start a daemon and yield its port."""
    command = [sys.executable, "-S", "-m", "sandbox_guest", "--port", "0", "--identity", str(identity_path), *options]
    process = subprocess.Popen(command, cwd=PACKAGE_PARENT, stderr=subprocess.PIPE, text=True)
    try:
        yield int(re.search(r"port (\d+)", process.stderr.readline())[1])
    finally:
        process.terminate()
        log = process.stderr.read()
        process.wait(10)
        process.stderr.close()
    assert "unexpected error" not in log, log
    assert "Traceback" not in log, log


def write_identity(path, **fields):
    document = {"access_token": TOKEN, "env": {"SHARED": "of the sandbox"}, "default_user": USER.pw_name, **fields}
    path.write_text(json.dumps(document))
