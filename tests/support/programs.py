"""Fail a test that executes a program of a Debian package that is neither in the Makefile nor required by Debian.

So tests do not depend on programs that only this machine has. Only processes that the test process starts are checked;
`make test-clean` covers their children.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OPTIONAL_PROGRAMS = {
    "node": "the Makefile installs it from PyPI where it is missing",
    "npm": "the Makefile installs it from PyPI where it is missing",
    "python3": "the interpreter of the tests, wherever it is",
    "php": "its webhook sample is skipped without it",
    "go": "its webhook sample is skipped without it",
}
PYTHON_FOLDERS = {sys.prefix, sys.base_prefix} - {"/usr"}  # Debian's own Python is in the folder of all other programs
OWN_FOLDERS = tuple(
    os.path.realpath(folder) for folder in (*PYTHON_FOLDERS, tempfile.gettempdir(), ROOT, ROOT / "var" / "cache")
)
check_state = {"checking": False}
start_process = subprocess.Popen.__init__


@cache
def declared_packages():
    """Return the Debian packages that the Makefile's *_PACKAGES variables name."""
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    lists = re.findall(r"^\w+_PACKAGES := (.*)$", makefile, re.MULTILINE)
    return {name for text in lists for name in text.split() if not name.startswith("$")}


@cache
def undeclared_error(path):
    """Return why a fresh machine may lack the program at this path, or None."""
    if (
        os.path.basename(path) in OPTIONAL_PROGRAMS
        or path.startswith(OWN_FOLDERS)
        or os.path.realpath(path).startswith(OWN_FOLDERS)
    ):
        return None
    owners = [owner for name in path_variants(path) for owner in run_dpkg("dpkg-query", "-S", name).splitlines()]
    owners = {owner.split(":")[0] for owner in owners if not owner.startswith("diversion ")}
    packages = {name for owner in owners for name in (owner, re.sub(r"-[0-9]+$", "", owner))}  # postgresql-15, too
    if not packages:
        return f"No Debian package owns the program {path}."
    priorities = run_dpkg("dpkg-query", "-W", "-f", "${Priority}\n", *owners).split()
    if packages & declared_packages() or "required" in priorities:
        return None
    return f"{path} belongs to {' or '.join(sorted(owners))}, which no *_PACKAGES list of the Makefile names."


def path_variants(path):
    """Return the names under which dpkg may know the file: with and without /usr, and what a link leads to."""
    paths = [path, os.path.realpath(path)]
    paths += [name.removeprefix("/usr") if name.startswith("/usr/") else f"/usr{name}" for name in paths]
    return dict.fromkeys(paths)


def run_dpkg(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def check_program(program, environment):
    """Raise AssertionError for an undeclared program."""
    if check_state["checking"]:
        return
    search_path = f"{os.fsdecode((environment or os.environ).get('PATH', ''))}:{SEARCH_PATH}"
    path = shutil.which(os.fsdecode(program), path=search_path)
    if path is None:
        return  # the call itself reports the missing program
    check_state["checking"] = True
    try:
        error = undeclared_error(path)
    finally:
        check_state["checking"] = False
    assert error is None, error


def start_checked_process(process, args, bufsize=-1, executable=None, *positional, **options):
    """Check the program, then start it. Stands in for `subprocess.Popen.__init__`."""
    if not options.get("shell"):
        program = args if isinstance(args, str | bytes | os.PathLike) else args[0]
        check_program(executable or program, options.get("env"))
    start_process(process, args, bufsize, executable, *positional, **options)


def pytest_configure():
    """Check the processes that tests start. An audit hook would do so, too, but Python calls it for every `id()`."""
    if shutil.which("dpkg-query"):
        subprocess.Popen.__init__ = start_checked_process
