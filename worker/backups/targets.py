"""Where a repository stores its objects. The interface is small, so that other kinds of storage fit behind it."""

import contextlib
import os
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from worker.backups.errors import ObjectNotFound, StoreError, TargetFailed

OBJECT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*")


@dataclass(frozen=True)
class ObjectStat:
    size: int
    modified_at: float
    """Seconds since the epoch."""


class Target(ABC):
    """A flat set of objects. A name has parts of a-z, 0-9, `_` and `-` with slashes between."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """After success the object is stored durably and replaces one of that name. Nobody ever sees a part of it."""

    @abstractmethod
    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return the object, or a range of it. Raises `ObjectNotFound`."""

    @abstractmethod
    def list(self, folder: str) -> Iterator[str]:
        """Yield the names of the objects whose names begin with `folder` and a slash."""

    @abstractmethod
    def stat(self, name: str) -> ObjectStat:
        """Return the object's size and time. Raises `ObjectNotFound`."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """After success there is no object of that name."""

    @abstractmethod
    def delete_incomplete(self, seconds: float) -> None:
        """Delete what uploads left that were interrupted more than `seconds` ago."""

    def has_object_lock(self) -> bool:
        """Return whether `lock` has an effect."""
        return False

    def lock(self, name: str, until: float) -> float:
        """Let the storage itself keep the object until that time, if it can. A lock is never shortened. Returns until
        when the object is locked, 0 if it is not. Times are seconds since the epoch."""
        return 0.0

    def is_locked(self, name: str) -> bool:
        """Return whether the storage keeps the object whoever deletes it."""
        return False


class LocalTarget(Target):
    """A directory, which may be on any file system with an atomic rename."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.uploads = directory / "uploads"

    def find_path(self, name: str) -> Path:
        check_object_name(name)
        return self.directory / "objects" / name

    def put(self, name: str, data: bytes) -> None:
        path, draft = self.find_path(name), self.uploads / uuid.uuid4().hex
        with translate_errors(name):
            for folder in (self.uploads, path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with draft.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            synchronize_folders(path.parent, self.directory)

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with translate_errors(name), self.find_path(name).open("rb") as file:
            file.seek(offset)
            return file.read() if length is None else file.read(length)

    def list(self, folder: str) -> Iterator[str]:
        root = self.directory / "objects"
        for path in (root / folder).rglob("*"):
            if path.is_file():
                yield str(path.relative_to(root))

    def stat(self, name: str) -> ObjectStat:
        with translate_errors(name):
            status = self.find_path(name).stat()
        return ObjectStat(status.st_size, status.st_mtime)

    def delete(self, name: str) -> None:
        with translate_errors(name):
            self.find_path(name).unlink(missing_ok=True)

    def delete_incomplete(self, seconds: float) -> None:
        for path in self.uploads.glob("*"):
            if path.stat().st_mtime < time.time() - seconds:
                path.unlink(missing_ok=True)


def check_object_name(name: str) -> None:
    if not OBJECT_NAME.fullmatch(name):
        raise StoreError(f"{name!r} is not the name of an object.")


@contextlib.contextmanager
def translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectNotFound(f"The target has no object {name}.") from error
    except OSError as error:
        raise TargetFailed(f"The target failed at {name}: {error}") from error


def synchronize_folders(folder: Path, root: Path) -> None:
    """Write the entries of the folder, and of its parents up to `root`, to the disk."""
    while True:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if folder == root:
            return
        folder = folder.parent
