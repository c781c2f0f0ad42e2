"""Reading the copies that backup jobs make of disks: qcow2 files, by ranges that libvirt streams.

A copy has no base image, no snapshots and nothing compressed. What it has not allocated has not changed, or is zero.
"""

import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import libvirt

from panel.core.messages import message
from worker.nodes.base import BackupReader, Disk, Extent, Refused, make_backup_name
from worker.nodes.libvirt import pools

CLUSTER_BYTES = 64 * 1024
TABLE_ENTRIES = CLUSTER_BYTES // 8
TABLE_SPAN_BYTES = CLUSTER_BYTES * TABLE_ENTRIES
"""Bytes of the disk that one table describes."""

ADDRESS_MASK, COMPRESSED_FLAG, ZERO_FLAG = 0x00FFFFFFFFFFFE00, 1 << 62, 1
HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")


@dataclass(frozen=True)
class Header:
    disk_size: int
    tables: tuple[int, ...]
    """Where the table for each `TABLE_SPAN_BYTES` is in the file; 0: there is none."""


def read_header(connection: libvirt.virConnect, disk: Disk) -> Header:
    """Read what is needed to find clusters. Raises `Refused` when there is no copy, or it is of another kind."""
    volume_pool = connection.storagePoolLookupByName(disk.pool)
    if pools.find_or_none(volume_pool.storageVolLookupByName, make_backup_name(disk.name)) is None:
        raise Refused(message("There is no backup of this disk."), f"disk {disk.name} in pool {disk.pool}")
    fields = HEADER.unpack(download(connection, disk, 0, HEADER.size))
    magic, version, base, _, cluster_bits, size, encryption, entries, start = fields[:9]
    if (magic, version, base, encryption, 1 << cluster_bits) != (b"QFI\xfb", 3, 0, 0, CLUSTER_BYTES) or fields[
        13
    ] & 0x1E:
        raise Refused(message("The disk cannot be read."), f"{make_backup_name(disk.name)} is no plain qcow2 file")
    l1 = struct.unpack(f">{entries}Q", download(connection, disk, start, entries * 8))
    return Header(size, tuple(entry & ADDRESS_MASK for entry in l1))


def read_table(connection: libvirt.virConnect, disk: Disk, start: int) -> tuple[int, ...]:
    return struct.unpack(f">{TABLE_ENTRIES}Q", download(connection, disk, start, CLUSTER_BYTES))


def download(connection: libvirt.virConnect, disk: Disk, start: int, length: int) -> bytes:
    pieces: list[bytes] = []
    stream_range(connection, disk, start, length, pieces.append)
    return b"".join(pieces)


def stream_range(
    connection: libvirt.virConnect, disk: Disk, start: int, length: int, take: Callable[[bytes], None]
) -> None:
    """Call `take` with the bytes of a range of the copy's file."""
    volume = pools.get_volume(connection, replace(disk, name=make_backup_name(disk.name)))
    stream = connection.newStream()
    volume.download(stream, start, length)
    try:
        while data := stream.recv(pools.UPLOAD_CHUNK_BYTES):
            take(data)
            length -= len(data)
        stream.finish()
    except BaseException:
        stream.abort()
        raise
    if length:
        raise Refused(message("The disk cannot be read."), f"{make_backup_name(disk.name)} is shorter than expected")


class CopyReader(BackupReader):
    def __init__(self, disk: Disk, call: Callable[..., Any]) -> None:
        """`call(work, *args, last_activity=…)` runs `work(connection, *args)`, as `LibvirtNode.call` does."""
        self.disk, self.call = disk, call
        self.header: Header = self.call(read_header, disk)
        self.size = self.header.disk_size
        self.table_number, self.table = -1, tuple[int, ...]()
        self.is_taking, self.last_byte_at = False, 0.0

    def get_entry(self, cluster: int) -> int:
        """Return where a cluster of the disk is in the file, with its flags; 0 when it is not there."""
        number, position = divmod(cluster, TABLE_ENTRIES)
        if number != self.table_number:
            start = self.header.tables[number]
            self.table = self.call(read_table, self.disk, start) if start else (0,) * TABLE_ENTRIES
            self.table_number = number
        if self.table[position] & COMPRESSED_FLAG:
            raise Refused(message("The disk cannot be read."), f"{self.disk.name}: its copy has compressed clusters")
        return self.table[position]

    def list_extents(self, offset: int, length: int) -> list[Extent]:
        extents: list[Extent] = []
        for cluster in range(offset // CLUSTER_BYTES, -(-(offset + length) // CLUSTER_BYTES)):
            if self.get_entry(cluster) & (ADDRESS_MASK | ZERO_FLAG):
                start = cluster * CLUSTER_BYTES
                size = min(CLUSTER_BYTES, self.size - start)
                if extents and extents[-1].offset + extents[-1].length == start:
                    extents[-1] = Extent(extents[-1].offset, extents[-1].length + size)
                else:
                    extents.append(Extent(start, size))
        return extents

    def read(self, extents: Iterable[Extent], write: Callable[[int, bytes | bytearray], None]) -> None:
        for extent in extents:
            start, address, size = 0, 0, 0  # a run of clusters that follow each other in the disk and in the file
            end = extent.offset + extent.length
            for offset in range(extent.offset, end, CLUSTER_BYTES):
                entry = self.get_entry(offset // CLUSTER_BYTES)
                place = 0 if entry & ZERO_FLAG else entry & ADDRESS_MASK
                if size and place != address + size:
                    self.read_run(start, address, size, write)
                    size = 0
                if place:
                    start, address = (start, address) if size else (offset, place)
                    size += min(CLUSTER_BYTES, end - offset)
            if size:
                self.read_run(start, address, size, write)

    def read_run(self, offset: int, address: int, size: int, write: Callable[[int, bytes | bytearray], None]) -> None:
        def take(data: bytes) -> None:
            nonlocal offset
            self.is_taking = True
            write(offset, data)
            offset += len(data)
            self.is_taking, self.last_byte_at = False, time.monotonic()

        self.is_taking = False
        self.call(stream_range, self.disk, address, size, take, last_activity=self.get_last_activity)

    def get_last_activity(self) -> float:
        """Return when the last byte arrived. While the caller takes bytes the node is not late."""
        return time.monotonic() if self.is_taking else self.last_byte_at

    def close(self) -> None:
        pass
