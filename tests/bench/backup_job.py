"""One job of the benchmark of backups, in a process whose memory is its own. Prints seconds, bytes and peak memory."""

import contextlib
import json
import os
import re
import sys
import time
from pathlib import Path

from worker.backups.backup import BackupRequest, backup_machine
from worker.backups.keys import RepositoryKey
from worker.backups.repository import Repository
from worker.backups.restore import write_raw_image
from worker.backups.targets import LocalTarget
from worker.nodes.base import BackupJob, BackupReader, Disk, Extent

KEY = RepositoryKey(bytes(32))
READ_BYTES = 256 * 1024


class ImageNode:
    """A node with one disk, a raw image."""

    def __init__(self, image, changes):
        self.image, self.changes = image, changes

    def begin_backup(
        self, machine_id, disks, checkpoint, previous=None, progress=None, bytes_per_second=0, fully_read=()
    ):
        return BackupJob("crash", checkpoint, {"disk": None if previous else "requested"})

    def open_backup(self, machine_id, disk):
        return ImageReader(self.image, self.changes)

    def end_backup(self, machine_id, disks):
        pass

    def delete_checkpoints(self, machine_id, retained):
        pass


class ImageReader(BackupReader):
    """Reads what is allocated, or the changes."""

    def __init__(self, image, changes):
        self.handle, self.changes, self.size = os.open(image, os.O_RDONLY), changes, image.stat().st_size

    def list_extents(self, offset, length):
        if self.changes is not None:
            return [Extent(change, 64 * 1024) for change in self.changes if offset <= change < offset + length]
        extents, end = [], offset + length
        with contextlib.suppress(OSError):
            while (start := os.lseek(self.handle, offset, os.SEEK_DATA)) < end:
                offset = min(os.lseek(self.handle, start, os.SEEK_HOLE), end)
                extents.append(Extent(start, offset - start))
        return extents

    def read(self, extents, write):
        for extent in extents:
            for offset in range(extent.offset, extent.offset + extent.length, READ_BYTES):
                size = min(READ_BYTES, extent.offset + extent.length - offset)
                write(offset, os.pread(self.handle, size, offset))

    def close(self):
        os.close(self.handle)


def back_up(place, repository, point, previous):
    image = place / "disk.raw"
    changes = sorted(json.loads((place / "changes").read_text())) if previous else None
    parent = repository.read_manifest(previous) if previous else None
    request = BackupRequest(point, (Disk("pool", "disk", image.stat().st_size),), "machine", previous=parent)
    manifest = backup_machine(ImageNode(image, changes), repository, request)
    return manifest.statistics.bytes_uploaded


def restore(place, repository, point):
    [disk] = repository.read_manifest(point).disks
    write_raw_image(repository, disk, place / "restored.raw")
    return disk.size


def main(job, folder, *arguments):
    started_at = time.perf_counter()
    repository = Repository.create(LocalTarget(Path(folder) / "repository"), KEY)
    size = {"back_up": back_up, "restore": restore}[job](Path(folder), repository, *arguments)
    seconds = time.perf_counter() - started_at
    status = Path("/proc/self/status").read_text()
    memory = int(re.search(r"VmHWM:\s*(\d+) kB", status).group(1)) * 1024
    print(json.dumps({"seconds": seconds, "bytes": size, "memory": memory}))


if __name__ == "__main__":
    main(*sys.argv[1:])
