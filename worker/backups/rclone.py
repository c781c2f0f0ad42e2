"""Objects of a repository in a storage that rclone reaches. Each request is one command."""

import datetime
import json
import logging
import re
import subprocess
import tempfile
from collections.abc import Iterator

from worker.backups.errors import ObjectNotFound, StoreError, TargetFailed
from worker.backups.targets import OBJECT_NAME, ObjectStat, Target, check_object_name

log = logging.getLogger(__name__)

NOT_FOUND_CODES = (3, 4)
"""Exit codes for a directory, or a file, that does not exist."""

VERSION, MIN_VERSION = re.compile(r"v([0-9]+)\.([0-9]+)"), (1, 63)
"""Earlier versions upload files under their own names, so that incomplete ones could be read."""

PARTIAL_FILES = "*.partial"
COMMAND_TIMEOUT_SECONDS = 600.0
OPTIONS = ("--contimeout=10s", "--timeout=30s", "--retries=1", "--low-level-retries=2", "--log-level=ERROR")
"""Limits for connections and for time without a byte."""


class RcloneFailed(TargetFailed):
    """A command failed. What it wrote is in the log, because it may name hosts and users."""

    def __init__(self, action: str, reason: str) -> None:
        super().__init__(f"The target failed at {action}: {reason}")
        self.reason = reason


class NothingFound(StoreError):
    """There is no such file or directory."""


class RcloneTarget(Target):
    """The files below a folder of a remote, which rclone's configuration names."""

    def __init__(self, remote: str, folder: str, *, command_timeout: float = COMMAND_TIMEOUT_SECONDS) -> None:
        self.root, self.command_timeout = f"{remote}:{folder}", command_timeout

    def find_path(self, name: str) -> str:
        check_object_name(name)
        return f"{self.root}/objects/{name}"

    def put(self, name: str, data: bytes) -> None:
        """Store a file under another name, and rename it when it is complete, where uploads are not atomic anyway."""
        path = self.find_path(name)
        try:
            with tempfile.NamedTemporaryFile(prefix="backup-") as file:
                file.write(data)
                file.flush()
                self.run(name, "copyto", "--no-check-dest", "--ignore-times", file.name, path)
        except OSError as error:
            raise RcloneFailed(name, "the worker cannot write a temporary file") from error

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        options = [f"--offset={offset}"] + ([] if length is None else [f"--count={length}"])
        return self.find(name, "cat", *options)

    def find(self, name: str, *command: str) -> bytes:
        try:
            return self.run(name, *command, self.find_path(name))
        except NothingFound as error:
            raise ObjectNotFound(f"The target has no object {name}.") from error

    def list(self, folder: str) -> Iterator[str]:
        try:
            files = self.run(folder, "lsf", "--recursive", "--files-only", f"{self.root}/objects/{folder}")
        except NothingFound:
            return
        for file in files.decode(errors="replace").splitlines():
            if OBJECT_NAME.fullmatch(file):  # incomplete files have a dot
                yield f"{folder}/{file}"

    def stat(self, name: str) -> ObjectStat:
        entry = json.loads(self.find(name, "lsjson", "--stat"))
        return ObjectStat(entry["Size"], datetime.datetime.fromisoformat(entry["ModTime"]).timestamp())

    def delete(self, name: str) -> None:
        try:
            self.run(name, "deletefile", self.find_path(name))
        except NothingFound:
            return

    def delete_incomplete(self, seconds: float) -> None:
        try:
            self.run("uploads", "delete", f"--include={PARTIAL_FILES}", f"--min-age={seconds:.0f}s", self.root)
        except NothingFound:
            return

    def check_access(self) -> None:
        """Raise RcloneFailed unless the folder can be listed, or does not exist yet, and files appear completely."""
        match = VERSION.search(self.run("rclone", "version").decode())
        if match is None or tuple(map(int, match.groups())) < MIN_VERSION:
            raise RcloneFailed("rclone", f"rclone must be version {'.'.join(map(str, MIN_VERSION))} or later")
        try:
            self.run("the folder", "lsf", "--max-depth=1", self.root)
        except NothingFound:
            return

    def run(self, action: str, *command: str) -> bytes:
        """Run a command and return its output. Raises NothingFound or RcloneFailed."""
        try:
            result = subprocess.run(
                ["rclone", *OPTIONS, *command],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.command_timeout,
            )
        except subprocess.TimeoutExpired as error:
            failure = RcloneFailed(action, "no answer in time")
            failure.is_unanswered = True
            raise failure from error
        except OSError as error:
            raise RcloneFailed(action, "rclone cannot be started") from error
        if result.returncode in NOT_FOUND_CODES:
            raise NothingFound(f"There is no {action}.")
        if result.returncode:
            log.warning("rclone %s failed: %s", command[0], result.stderr.decode(errors="replace").strip()[-2000:])
            raise RcloneFailed(action, f"rclone failed with code {result.returncode}; the worker's log says why")
        return result.stdout
