"""Archives in a target: parts of limited size, and a manifest that is written last. Without it there is no archive.

The parts are a file in pieces: joined in order, they are what `panel backup create` writes. Each attempt to store an
archive has a folder of its own, so two workers never write the same object.
"""

import hashlib
import io
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import IO

from worker.backups.errors import Damaged, ObjectNotFound, StoreError
from worker.backups.repository import DESCRIPTION_OBJECT
from worker.backups.targets import Target

PART_BYTES = 16 * 1024 * 1024
"""A part is in memory while it is stored or read."""

ARCHIVES_FOLDER, MANIFEST_NAME = "archives", "manifest"
DESCRIPTION = {"format": "panel-archives-1"}


@dataclass(frozen=True)
class ArchiveManifest:
    """What is known of an archive without its passphrase."""

    created_at: str
    version: str
    """Version of the panel that made it."""
    parts: int
    size: int
    """Bytes."""
    sha256: str


class ArchiveWriter(io.RawIOBase):
    """A stream that stores what is written to it as parts. Call `finish` at the end."""

    def __init__(self, target: Target, folder: str, progress: Callable[[int], None]) -> None:
        self.target, self.folder, self.progress = target, folder, progress
        self.waiting, self.parts, self.size, self.digest = bytearray(), 0, 0, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # callers write bytes only
        self.waiting += data
        while len(self.waiting) >= PART_BYTES:
            self.store_part(bytes(self.waiting[:PART_BYTES]))
            del self.waiting[:PART_BYTES]
        return len(data)

    def store_part(self, part: bytes) -> None:
        self.target.put(get_part_name(self.folder, self.parts), part)
        self.digest.update(part)
        self.parts, self.size = self.parts + 1, self.size + len(part)
        self.progress(self.size)

    def finish(self, created_at: str, version: str) -> ArchiveManifest:
        """Store what is left, then the manifest."""
        if self.waiting:
            self.store_part(bytes(self.waiting))
        manifest = ArchiveManifest(created_at, version, self.parts, self.size, self.digest.hexdigest())
        self.target.put(f"{self.folder}/{MANIFEST_NAME}", json.dumps(asdict(manifest)).encode())
        return manifest


def get_part_name(folder: str, number: int) -> str:
    return f"{folder}/part-{number:05d}"


def mark_place(target: Target) -> None:
    """Mark a new place for archives, before the first is stored."""
    target.put(DESCRIPTION_OBJECT, json.dumps(DESCRIPTION).encode())


def ensure_place(target: Target) -> None:
    """Raise StoreError when a place that has archives is not there: its disk is probably not mounted."""
    try:
        target.stat(DESCRIPTION_OBJECT)
    except ObjectNotFound as error:
        raise StoreError("the stored backups are not there") from error


def store(
    target: Target, run_id: str, write: Callable[[IO[bytes]], None], progress: Callable[[int], None], **facts: str
) -> tuple[str, ArchiveManifest]:
    """Store what `write` writes, and return the name and the manifest of the archive. After a failure nothing of it is
    left where the target still answers. `progress` gets the stored bytes after each part and may raise."""
    name = f"{run_id}/{uuid.uuid4().hex}"
    writer = ArchiveWriter(target, f"{ARCHIVES_FOLDER}/{name}", progress)
    try:
        write(writer)  # type: ignore[arg-type]
        return name, writer.finish(**facts)
    except BaseException:
        delete_objects(target, f"{ARCHIVES_FOLDER}/{name}")
        raise


def list_names(target: Target) -> Iterator[str]:
    """Yield the names of complete archives, from old to new. They begin with ids that sort by time."""
    for name in sorted(target.list(ARCHIVES_FOLDER)):
        folder, _, last = name.rpartition("/")
        if last == MANIFEST_NAME:
            yield folder.removeprefix(f"{ARCHIVES_FOLDER}/")


def read_manifest(target: Target, name: str) -> ArchiveManifest:
    data = target.get(f"{ARCHIVES_FOLDER}/{name}/{MANIFEST_NAME}")
    try:
        return ArchiveManifest(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise Damaged(f"The manifest of {name} cannot be read.") from error


def fetch(target: Target, name: str, file: IO[bytes]) -> ArchiveManifest:
    """Write an archive to the file. Raise Damaged unless it is the one that was stored."""
    manifest, digest = read_manifest(target, name), hashlib.sha256()
    for number in range(manifest.parts):
        part = target.get(get_part_name(f"{ARCHIVES_FOLDER}/{name}", number))
        digest.update(part)
        file.write(part)
    if digest.hexdigest() != manifest.sha256:
        raise Damaged(f"The archive {name} is damaged: its content has changed.")
    return manifest


def delete(target: Target, run_id: str) -> None:
    """After success nothing of the run is stored. Its manifests go first, so half of an archive is none."""
    folder = f"{ARCHIVES_FOLDER}/{run_id}"
    names = sorted(target.list(folder), key=lambda name: not name.endswith(f"/{MANIFEST_NAME}"))
    for name in names:
        target.delete(name)
    if any(target.list(folder)):
        raise StoreError("it still has the archive")


def delete_objects(target: Target, folder: str) -> None:
    """Delete what is left of a failed attempt, if the target lets it."""
    try:
        for name in list(target.list(folder)):
            target.delete(name)
    except StoreError:
        return
