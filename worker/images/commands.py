"""The programs of the host that build an image: which are absent, and how one is run."""

import os
import shutil
import subprocess
from collections.abc import Mapping

PROGRAM_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
"""A shell without the administrator's directories still finds sfdisk and mke2fs."""


class BuildFailed(Exception):
    """An image could not be built. The text names the program that gave up and its own last words."""


def list_missing(programs: Mapping[str, str]) -> list[str]:
    """A sentence for each program (or file, when it is a path) that is not there; the values are apt packages."""
    gone = [name for name in programs if not shutil.which(name, path=PROGRAM_PATH) and not os.path.isfile(name)]
    sentences = [f"{name} is not installed: apt install {programs[name]}." for name in gone]
    if os.geteuid() != 0:
        sentences.append("Images are built as root, because the files in them belong to root.")
    return sentences


def run(*command, **options) -> str:
    """What the program wrote to its standard output. Raises `BuildFailed` when it fails or is not there."""
    environment = {**os.environ, "PATH": PROGRAM_PATH, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            [str(word) for word in command],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            **options,
        )
    except FileNotFoundError:
        raise BuildFailed(f"{command[0]} is not installed.") from None
    except subprocess.CalledProcessError as error:
        raise BuildFailed(f"{command[0]} failed: {error.stderr.strip()[-2000:]}") from None
    return done.stdout
