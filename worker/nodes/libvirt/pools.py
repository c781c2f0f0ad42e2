"""Pools, images, disks and seeds, all by libvirt's storage calls: the node's files are never opened directly.

libvirt cannot rename a volume, and copying an image on the node only to give it its final name would double the work.
So a second, empty volume beside an image marks it as complete; an interrupted transfer has no such mark.
"""

import contextlib
import io
import time
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import libvirt
from lxml import etree

from panel.core.messages import message
from worker.nodes.base import Disk, Image, Pool, Progress, Readable, Refused, Seed
from worker.nodes.libvirt import xml
from worker.nodes.libvirt.errors import ignore_missing, repeat_when_off
from worker.nodes.libvirt.seed_iso import build_iso

COMPLETE_SUFFIX = ".complete"
FIRMWARE_POOLS_PREFIX = "panel-firmware"
"""The beginning of the names of pools that are not for disks."""

UPLOAD_CHUNK_BYTES = 262_120
"""Bytes that every version of libvirt sends in one packet."""

POOL_START_TIMEOUT_SECONDS, POOL_POLL_INTERVAL_SECONDS = 20.0, 0.1
"""Seconds to wait while another process starts a pool, and between two polls of it."""


def prepare_pool(connection: libvirt.virConnect, name: str, path: str) -> Pool:
    volume_pool = find_or_none(connection.storagePoolLookupByName, name)
    if volume_pool is not None and PurePosixPath(get_pool_path(volume_pool)) != PurePosixPath(path):
        if volume_pool.isActive():
            volume_pool.destroy()
        volume_pool = connection.storagePoolDefineXML(xml.build_pool_xml(name, path, volume_pool.UUIDString()))
    volume_pool = volume_pool or define_pool(connection, name, path)
    activate_pool(volume_pool)
    volume_pool.setAutostart(1)
    return describe_pool(volume_pool)


def define_pool(connection: libvirt.virConnect, name: str, path: str) -> libvirt.virStoragePool:
    try:
        return connection.storagePoolDefineXML(xml.build_pool_xml(name, path))
    except libvirt.libvirtError:
        existing = find_or_none(
            connection.storagePoolLookupByName, name
        )  # another process prepared it at the same moment
        if existing is None:
            raise
        return existing


def activate_pool(volume_pool: libvirt.virStoragePool) -> None:
    """Start the pool. Waits while another process starts it: libvirt refuses the second attempt."""
    deadline = time.monotonic() + POOL_START_TIMEOUT_SECONDS
    while not volume_pool.isActive():
        try:
            volume_pool.create(libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID or time.monotonic() > deadline:
                raise
            time.sleep(POOL_POLL_INTERVAL_SECONDS)


def list_pools(connection: libvirt.virConnect) -> tuple[Pool, ...]:
    """Return the active pools, with their current free space."""
    active_pools = [
        pool
        for pool in connection.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)
        if not pool.name().startswith(FIRMWARE_POOLS_PREFIX)
    ]
    for pool in active_pools:
        with contextlib.suppress(libvirt.libvirtError):  # fails during a transfer; the last known sizes are used
            pool.refresh()
    return tuple(describe_pool(pool) for pool in active_pools)


def describe_pool(pool: libvirt.virStoragePool) -> Pool:
    _, capacity, _, free = pool.info()
    return Pool(pool.name(), get_pool_path(pool), capacity, free)


def get_pool_path(pool: libvirt.virStoragePool) -> str:
    return etree.fromstring(pool.XMLDesc()).findtext("target/path") or ""


def has_image(connection: libvirt.virConnect, pool: str, image: Image) -> bool:
    names = connection.storagePoolLookupByName(pool).listVolumes()
    return image.name in names and image.name + COMPLETE_SUFFIX in names


def put_image(connection: libvirt.virConnect, pool: str, image: Image, progress: Progress) -> None:
    volume_pool = connection.storagePoolLookupByName(pool)
    if find_or_none(volume_pool.storageVolLookupByName, image.name + COMPLETE_SUFFIX) is not None:
        return
    with image.path.open("rb") as source:
        upload(create_volume(volume_pool, image.name, xml.build_qcow2_xml(image.name, 0)), source, image.size, progress)
    if get_volume_file_size(volume_pool, image.name) < image.size:
        detail = f"{image.name} is shorter than {image.size} bytes: its file is, or another transfer replaced it"
        raise Refused(message("The image was not copied completely."), detail)
    create_volume(volume_pool, image.name + COMPLETE_SUFFIX, xml.build_raw_volume_xml(image.name + COMPLETE_SUFFIX, 0))


def get_volume_file_size(volume_pool: libvirt.virStoragePool, name: str) -> int:
    """Return the bytes of the volume's file. A second transfer of the same image replaces the file of the first."""
    return int(etree.fromstring(volume_pool.storageVolLookupByName(name).XMLDesc()).findtext("physical") or 0)


def delete_image(connection: libvirt.virConnect, pool: str, name: str) -> None:
    """Delete the mark first: after an interruption the rest does not count as an image."""
    ensure_not_base(connection.storagePoolLookupByName(pool), name)
    delete_disk(connection, pool, name + COMPLETE_SUFFIX)
    delete_disk(connection, pool, name)


def ensure_not_base(volume_pool: libvirt.virStoragePool, name: str) -> None:
    image = find_or_none(volume_pool.storageVolLookupByName, name)
    for volume in volume_pool.listAllVolumes() if image is not None else ():
        with ignore_missing():
            if etree.fromstring(volume.XMLDesc()).findtext("backingStore/path") == image.path():
                raise Refused(message("Disks are based on the image."), f"{volume.name()} is based on {name}")


def create_disk(connection: libvirt.virConnect, disk: Disk, image: Image | None) -> None:
    volume_pool = connection.storagePoolLookupByName(disk.pool)
    base = None
    if image:
        volume_pool.storageVolLookupByName(image.name + COMPLETE_SUFFIX)
        base = volume_pool.storageVolLookupByName(image.name).path()
    create_volume(volume_pool, disk.name, xml.build_qcow2_xml(disk.name, disk.size, base))


def create_volume(volume_pool: libvirt.virStoragePool, name: str, description: str) -> libvirt.virStorageVol:
    """Create a volume, replacing any of that name. The existing one is looked up only when creation fails."""
    try:
        return volume_pool.createXML(description)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_STORAGE_VOL_EXIST:
            raise
    volume_pool.storageVolLookupByName(name).delete()
    return volume_pool.createXML(description)


def grow_disk(connection: libvirt.virConnect, disk: Disk, machine_id: str | None) -> None:
    volume = get_volume(connection, disk)
    _, size, _ = volume.info()
    if size >= disk.size:
        return
    if machine_id is None:
        volume.resize(disk.size)
    else:
        machine = connection.lookupByUUIDString(machine_id)
        repeat_when_off(machine, lambda: resize_volume(machine, volume, disk))


def resize_volume(machine: libvirt.virDomain, volume: libvirt.virStorageVol, disk: Disk) -> None:
    if machine.isActive():
        machine.blockResize(volume.path(), disk.size, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
    else:
        volume.resize(disk.size)


def delete_disk(connection: libvirt.virConnect, pool: str, name: str) -> None:
    volume = find_or_none(connection.storagePoolLookupByName(pool).storageVolLookupByName, name)
    if volume is not None:
        with ignore_missing():
            volume.delete()


def list_disks(connection: libvirt.virConnect, pool: str) -> list[Disk]:
    disks = []
    for volume in connection.storagePoolLookupByName(pool).listAllVolumes():
        if not volume.name().endswith(COMPLETE_SUFFIX):
            with ignore_missing():  # deleted since it was listed
                disks.append(Disk(pool, volume.name(), volume.info()[1]))
    return disks


def get_volume(connection: libvirt.virConnect, disk: Disk) -> libvirt.virStorageVol:
    return connection.storagePoolLookupByName(disk.pool).storageVolLookupByName(disk.name)


def create_seed(connection: libvirt.virConnect, pool: str, name: str, seed: Seed) -> Disk:
    content = build_iso(seed)
    volume_pool = connection.storagePoolLookupByName(pool)
    volume = create_volume(volume_pool, name, xml.build_raw_volume_xml(name, len(content)))
    upload(volume, io.BytesIO(content), len(content), lambda done, total: None)
    return Disk(pool, name, len(content))


def upload(volume: libvirt.virStorageVol, source: Readable, size: int, progress: Progress) -> None:
    """Fill a new volume. When the source or the node fails, the volume is deleted."""
    stream = volume.connect().newStream()
    try:
        volume.upload(stream, 0, size)
        done = 0
        while chunk := source.read(UPLOAD_CHUNK_BYTES):
            done += len(chunk)
            while chunk:
                chunk = chunk[stream.send(chunk) :]
            progress(done, size)
        stream.finish()
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            stream.abort()
        with contextlib.suppress(libvirt.libvirtError):
            volume.delete()
        raise


def find_or_none(find: Callable[[str], Any], name: str) -> Any:
    """Return what `find(name)` returns, or None when there is nothing of that name."""
    with ignore_missing():
        return find(name)
