"""The host's programs that build an image: which are missing, and running one."""

import os
import shutil
import subprocess
from collections.abc import Mapping

PROGRAM_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
"""With the administrator's directories, which a shell may lack, so that sfdisk and mke2fs are found."""


class BuildFailed(Exception):
    """An image could not be built. The text names the program that failed and its error output."""


def list_missing(programs: Mapping[str, str]) -> list[str]:
    """Return a sentence for each program (or file, when it is a path) that is missing; the values are apt packages."""
    missing = [name for name in programs if not shutil.which(name, path=PROGRAM_PATH) and not os.path.isfile(name)]
    sentences = [f"{name} is not installed: apt install {programs[name]}." for name in missing]
    if os.geteuid() != 0:
        sentences.append("Images are built as root, because the files in them belong to root.")
    return sentences


def run(*command, **options) -> str:
    """Return the program's standard output. Raises `BuildFailed` when it fails or is missing."""
    environment = {**os.environ, "PATH": PROGRAM_PATH, "LC_ALL": "C.UTF-8"}
    try:
        result = subprocess.run(
            [str(argument) for argument in command],
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
    return result.stdout
