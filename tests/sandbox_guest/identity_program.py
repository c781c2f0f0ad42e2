"""The program that applies an identity, run below a folder."""

import base64
import json
import os
import subprocess
import sys

from tests.sandbox_guest.daemon import PACKAGE_PARENT

DOCUMENT = {
    "host_name": "sandbox-7",
    "machine_id": "0123456789abcdef0123456789abcdef",
    "entropy": base64.b64encode(os.urandom(64)).decode(),
    "time": 1893553445.5,
    "access_token": "secret",
    "env": {"A": "1"},
    "default_user": "user",
    "default_workdir": "/code",
}


def apply(root, document):
    command = [sys.executable, "-S", "-m", "sandbox_guest.identity", "--root", str(root)]
    text = document if isinstance(document, str) else json.dumps(document)
    return subprocess.run(command, cwd=PACKAGE_PARENT, input=text, capture_output=True, text=True, timeout=20)
