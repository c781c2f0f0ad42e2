"""The clients of E2B that CI runs besides the Python SDK of constraints.txt: older releases of it, each in a virtual
environment of its own, and the JavaScript SDK with the command line. They are installed once, into `var/cache`."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from panel.core.config import ROOT

PYTHON_RELEASES = ("2.46.4", "2.29.6", "2.15.3")
PINS_FOLDER = Path(__file__).parents[1] / "sandbox_clients" / "pins"
"""What is installed: constraints for pip, and a package with its lock for npm."""

CACHE = ROOT / "var" / "cache" / "sandbox-clients"


def find_python(release):
    """Return the interpreter of an environment with this release of the SDK. Installs it when it is missing."""
    constraints = PINS_FOLDER / "constraints.txt"
    folder = CACHE / f"python-{release}-{hash_files(constraints)}"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "--python", folder / "bin/python"]
        run(*pip, "install", "-c", constraints, f"e2b=={release}")
        (folder / "installed").touch()
    return folder / "bin/python"


def find_node_modules():
    """Return the folder with the packages of npm. Installs them when they are missing."""
    files = [PINS_FOLDER / name for name in ("package.json", "package-lock.json", ".npmrc")]
    folder = CACHE / f"node-{hash_files(*files)}"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in files:
            shutil.copy(file, folder)
        run("npm", "ci", "--prefix", folder, "--no-audit", "--no-fund")
        (folder / "installed").touch()
    return folder / "node_modules"


def hash_files(*files):
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


def run(*command):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def install(log):
    """Install all clients, for tests that run without a network."""
    log("Installing the clients of sandboxes …")
    for release in PYTHON_RELEASES:
        find_python(release)
    find_node_modules()
