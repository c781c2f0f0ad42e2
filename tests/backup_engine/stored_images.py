"""A node whose disks are byte arrays, for tests and benchmarks of the store."""

import random
from dataclasses import replace

from worker.backups import backup
from worker.backups.restoring import StoredDisk
from worker.nodes.base import BackupJob, BackupReader, Disk, Extent

BLOCK_BYTES = 64 * 1024


class ImageNode:
    """Serves one disk, and knows which blocks changed since the last job."""

    def __init__(self, size):
        self.image = bytearray(size)
        self.disk = Disk("pool", "disk", size)
        self.changed, self.has_checkpoint = set(), False

    def write(self, offset, data):
        self.image[offset : offset + len(data)] = data
        self.changed.update(range(offset // BLOCK_BYTES, (offset + len(data) - 1) // BLOCK_BYTES + 1))

    def grow(self, size):
        self.image.extend(bytes(size - len(self.image)))
        self.disk = replace(self.disk, size=size)

    def begin_backup(
        self, machine_id, disks, checkpoint, previous=None, progress=None, bytes_per_second=0, fully_read=()
    ):
        self.frozen = bytes(self.image)
        self.is_incremental = bool(previous and self.has_checkpoint)
        self.frozen_changes = sorted(self.changed)
        return BackupJob("crash", checkpoint, {"disk": None if self.is_incremental else "no_checkpoint"})

    def open_backup(self, machine_id, disk):
        return ImageReader(self)

    def end_backup(self, machine_id, disks):
        pass

    def delete_checkpoints(self, machine_id, retained):
        """Called when the point is complete, or has failed."""

    def complete(self):
        self.changed, self.has_checkpoint = set(), True


class ImageReader(BackupReader):
    def __init__(self, node):
        self.content, self.size = node.frozen, len(node.frozen)
        self.is_incremental, self.changes = node.is_incremental, node.frozen_changes

    def list_extents(self, offset, length):
        if not self.is_incremental:
            return [Extent(offset, length)]
        blocks = [Extent(number * BLOCK_BYTES, BLOCK_BYTES) for number in self.changes]
        return [extent for extent in blocks if offset <= extent.offset < offset + length]

    def read(self, extents, write):
        for extent in extents:
            for start in range(extent.offset, extent.offset + extent.length, BLOCK_BYTES):
                data = self.content[start : min(start + BLOCK_BYTES, extent.offset + extent.length)]
                if data.strip(b"\0"):
                    write(start, data)

    def close(self):
        pass


def make_noise(seed, size):
    return random.Random(seed).randbytes(size)


def back_up(node, repository, point, previous=None, **options):
    """Make a point of the node's disk."""
    request = backup.BackupRequest(point, (node.disk,), "machine", previous=previous, **options)
    manifest = backup.backup_machine(node, repository, request)
    node.complete()
    return manifest


def read_image(repository, point):
    """Return the content of the point's disk, as a restore delivers it."""
    [disk] = repository.read_manifest(point).disks
    content = StoredDisk(repository, disk)
    image = bytearray(disk.size)
    for extent, data in zip(content.list_extents(), content.read(), strict=True):
        assert len(data) == extent.length
        image[extent.offset : extent.offset + extent.length] = data
    return bytes(image)
