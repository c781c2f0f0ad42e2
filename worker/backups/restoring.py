"""Restoring a disk to a node."""

from collections.abc import Iterator

from worker.backups.chunk_reading import read_chunks
from worker.backups.errors import StoreError
from worker.backups.manifests import DiskEntry, Manifest
from worker.backups.rate_limit import RateLimit
from worker.backups.stores import PointStore
from worker.nodes.base import Disk, Extent, NodeDriver, Progress


class StoredDisk:
    """The content of a disk of a point, as `NodeDriver.write_disk` takes it, at most so fast (0 is unlimited)."""

    def __init__(self, repository: PointStore, disk: DiskEntry, bytes_per_second: int = 0) -> None:
        self.repository, self.disk = repository, disk
        self.limit = RateLimit(bytes_per_second)

    def list_extents(self) -> Iterator[Extent]:
        for offset, _ in self.repository.list_chunks(self.disk):
            yield Extent(offset, min(self.disk.chunk_size, self.disk.size - offset))

    def read(self) -> Iterator[bytes]:
        for offset, data in read_chunks(self.repository, self.disk):
            self.limit.wait(len(data))
            yield data[: self.disk.size - offset]


def restore_disk(
    node: NodeDriver,
    repository: PointStore,
    manifest: Manifest,
    disk_name: str,
    target: Disk,
    progress: Progress | None = None,
    bytes_per_second: int = 0,
) -> None:
    """Create the disk `target` with the content of a disk of the point, at most so fast (0 is unlimited). After
    failure, or when `progress` raised, there is no disk of that name.

    To restore in place, choose a new name for `target`, define the machine with it, and delete the old disk last. The
    machine's checkpoints mean nothing for the new disk: delete them.
    """
    disk = manifest.find_disk(disk_name)
    if disk is None:
        raise StoreError(f"The point {manifest.point} has no disk {disk_name}.")
    if target.size < disk.size:
        raise StoreError(f"The disk {target.name} is smaller than the stored one.")
    node.write_disk(target, StoredDisk(repository, disk, bytes_per_second), progress)
