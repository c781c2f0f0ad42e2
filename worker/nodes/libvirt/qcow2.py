"""Writing a qcow2 file from front to back: everything about its clusters comes before the data.

The format: https://gitlab.com/qemu-project/qemu/-/blob/master/docs/interop/qcow2.rst
"""

import struct
from collections.abc import Iterator

from worker.nodes.base import DiskContent

CLUSTER_BITS = 16
CLUSTER_BYTES = 1 << CLUSTER_BITS
TABLE_ENTRIES = CLUSTER_BYTES // 8
"""Entries of a table that fills a cluster."""

REFCOUNT_BLOCK_ENTRIES = CLUSTER_BYTES // 2
COPIED_FLAG = 1 << 63
"""The cluster is used once, so it may be written in place."""

HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")
HEADER_BYTES = 104


class Qcow2File:
    """A file with the content of a disk, to be read once."""

    def __init__(self, content: DiskContent, disk_size: int) -> None:
        self.content, self.disk_size = content, disk_size
        self.data_clusters, used_tables = 0, dict[int, None]()
        for extent in content.list_extents():
            first, last = extent.offset // CLUSTER_BYTES, (extent.offset + extent.length - 1) // CLUSTER_BYTES
            self.data_clusters += last - first + 1
            used_tables.update(dict.fromkeys(range(first // TABLE_ENTRIES, last // TABLE_ENTRIES + 1)))
        self.used_tables = list(used_tables)
        self.l1_entries = count_units(disk_size, CLUSTER_BYTES * TABLE_ENTRIES)
        self.l1_clusters = count_units(self.l1_entries, TABLE_ENTRIES)
        self.refcount_blocks = self.refcount_tables = 0
        while self.refcount_blocks != (blocks := count_units(self.count_clusters(), REFCOUNT_BLOCK_ENTRIES)):
            self.refcount_blocks, self.refcount_tables = blocks, count_units(blocks, TABLE_ENTRIES)
        self.size = self.count_clusters() * CLUSTER_BYTES
        self.blocks = self.generate()
        self.block = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return at most `size` further bytes, none at the end."""
        while not self.block:
            try:
                self.block = memoryview(next(self.blocks))
            except StopIteration:
                return b""
        data, self.block = bytes(self.block[:size]), self.block[size:]
        return data

    def count_clusters(self) -> int:
        return self.first_data_cluster + self.data_clusters

    @property
    def l1_start(self) -> int:
        return 1 + self.refcount_tables + self.refcount_blocks

    @property
    def first_table_cluster(self) -> int:
        return self.l1_start + self.l1_clusters

    @property
    def first_data_cluster(self) -> int:
        return self.first_table_cluster + len(self.used_tables)

    def generate(self) -> Iterator[bytes]:
        yield self.build_header().ljust(CLUSTER_BYTES, b"\0")
        yield from self.generate_refcounts()
        l1 = [0] * self.l1_entries
        for number, table in enumerate(self.used_tables):
            l1[table] = COPIED_FLAG | (self.first_table_cluster + number) * CLUSTER_BYTES
        yield struct.pack(f">{len(l1)}Q", *l1).ljust(self.l1_clusters * CLUSTER_BYTES, b"\0")
        yield from self.generate_tables()
        for data in self.content.read():
            yield data
            yield bytes(-len(data) % CLUSTER_BYTES)

    def build_header(self) -> bytes:
        refcounts = CLUSTER_BYTES, self.refcount_tables
        l1 = self.l1_entries, self.l1_start * CLUSTER_BYTES
        return HEADER.pack(
            b"QFI\xfb", 3, 0, 0, CLUSTER_BITS, self.disk_size, 0, *l1, *refcounts, 0, 0, 0, 0, 0, 4, HEADER_BYTES
        )

    def generate_refcounts(self) -> Iterator[bytes]:
        starts = range(1 + self.refcount_tables, 1 + self.refcount_tables + self.refcount_blocks)
        table = struct.pack(f">{len(starts)}Q", *(start * CLUSTER_BYTES for start in starts))
        yield table.ljust(self.refcount_tables * CLUSTER_BYTES, b"\0")
        clusters = self.count_clusters()
        for first in range(0, clusters, REFCOUNT_BLOCK_ENTRIES):
            yield (b"\0\1" * min(REFCOUNT_BLOCK_ENTRIES, clusters - first)).ljust(CLUSTER_BYTES, b"\0")

    def generate_tables(self) -> Iterator[bytes]:
        """Yield the tables that say where the clusters of the disk are."""
        cluster, number, table = self.first_data_cluster, -1, [0] * TABLE_ENTRIES
        for extent in self.content.list_extents():
            first = extent.offset // CLUSTER_BYTES
            for position in range(first, first + count_units(extent.length, CLUSTER_BYTES)):
                if position // TABLE_ENTRIES != number:
                    if number >= 0:
                        yield struct.pack(f">{TABLE_ENTRIES}Q", *table)
                    number, table = position // TABLE_ENTRIES, [0] * TABLE_ENTRIES
                table[position % TABLE_ENTRIES] = COPIED_FLAG | cluster * CLUSTER_BYTES
                cluster += 1
        if number >= 0:
            yield struct.pack(f">{TABLE_ENTRIES}Q", *table)


def count_units(size: int, unit: int) -> int:
    return -(-size // unit)
