"""Pools, images, disks and seeds, all through libvirt's storage calls: the node's files are never touched directly.

libvirt cannot rename a volume, and copying an image on the node only to give it its final name would double the work.
So an image is complete when a second, empty volume beside it says so; a transfer that was cut off lacks that mark.
"""

import contextlib
import io
import time
from pathlib import PurePosixPath

import libvirt
from lxml import etree

from worker.nodes.base import Disk, Image, Pool, Progress, Refused, Seed
from worker.nodes.libvirt import xml
from worker.nodes.libvirt.errors import ignore_missing, repeat_when_off
from worker.nodes.libvirt.seed_iso import build_iso

COMPLETE_SUFFIX = ".complete"

UPLOAD_CHUNK_BYTES = 262_120
"""Bytes that every version of libvirt sends in one packet."""

POOL_START_TIMEOUT_SECONDS, POOL_POLL_INTERVAL_SECONDS = 20.0, 0.1
"""Seconds that another process has to start a pool, and between two looks at it."""


def prepare_pool(connection: libvirt.virConnect, name: str, path: str) -> Pool:
    found = find_or_none(connection.storagePoolLookupByName, name)
    if found is not None and PurePosixPath(pool_path(found)) != PurePosixPath(path):
        if found.isActive():
            found.destroy()
        found = connection.storagePoolDefineXML(xml.pool(name, path, found.UUIDString()))
    found = found or define_pool(connection, name, path)
    activate_pool(found)
    found.setAutostart(1)
    return describe_pool(found)


def define_pool(connection, name, path):
    try:
        return connection.storagePoolDefineXML(xml.pool(name, path))
    except libvirt.libvirtError:
        quicker = find_or_none(connection.storagePoolLookupByName, name)  # another process prepares it, too
        if quicker is None:
            raise
        return quicker


def activate_pool(found):
    """Waits for another process that does it at this moment: libvirt refuses the second one."""
    until = time.monotonic() + POOL_START_TIMEOUT_SECONDS
    while not found.isActive():
        try:
            found.create(libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID or time.monotonic() > until:
                raise
            time.sleep(POOL_POLL_INTERVAL_SECONDS)


def list_pools(connection) -> tuple[Pool, ...]:
    """The active pools, with the room they have at this moment."""
    found = connection.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)
    for pool in found:
        with contextlib.suppress(libvirt.libvirtError):  # a transfer goes on: the last figures have to do
            pool.refresh()
    return tuple(describe_pool(pool) for pool in found)


def describe_pool(pool) -> Pool:
    _, capacity, _, free = pool.info()
    return Pool(pool.name(), pool_path(pool), capacity, free)


def pool_path(pool) -> str:
    return etree.fromstring(pool.XMLDesc()).findtext("target/path") or ""


def has_image(connection, pool: str, image: Image) -> bool:
    names = connection.storagePoolLookupByName(pool).listVolumes()
    return image.name in names and image.name + COMPLETE_SUFFIX in names


def put_image(connection, pool: str, image: Image, moved: Progress):
    place = connection.storagePoolLookupByName(pool)
    if find_or_none(place.storageVolLookupByName, image.name + COMPLETE_SUFFIX) is not None:
        return
    with image.path.open("rb") as source:
        upload(create_volume(place, image.name, xml.qcow2(image.name, 0)), source, image.size, moved)
    if volume_file_size(place, image.name) < image.size:
        detail = f"{image.name} is shorter than {image.size} bytes: its file is, or another transfer replaced it"
        raise Refused("The image did not arrive as a whole.", detail)
    create_volume(place, image.name + COMPLETE_SUFFIX, xml.raw(image.name + COMPLETE_SUFFIX, 0))


def volume_file_size(place, name: str) -> int:
    """Bytes of the volume's file. A second transfer of the same image replaces the file of the first."""
    return int(etree.fromstring(place.storageVolLookupByName(name).XMLDesc()).findtext("physical") or 0)


def delete_image(connection, pool: str, name: str):
    """The mark goes first: what is left when this is cut off does not count as an image."""
    ensure_not_base(connection.storagePoolLookupByName(pool), name)
    delete_disk(connection, pool, name + COMPLETE_SUFFIX)
    delete_disk(connection, pool, name)


def ensure_not_base(place, name: str):
    image = find_or_none(place.storageVolLookupByName, name)
    for volume in place.listAllVolumes() if image is not None else ():
        with ignore_missing():
            if etree.fromstring(volume.XMLDesc()).findtext("backingStore/path") == image.path():
                raise Refused("Disks are based on the image.", f"{volume.name()} is based on {name}")


def create_disk(connection, disk: Disk, image: Image | None):
    place = connection.storagePoolLookupByName(disk.pool)
    base = None
    if image:
        place.storageVolLookupByName(image.name + COMPLETE_SUFFIX)
        base = place.storageVolLookupByName(image.name).path()
    create_volume(place, disk.name, xml.qcow2(disk.name, disk.size, base))


def create_volume(place, name: str, description: str):
    """A new volume in the place of any that was there. The other is looked for only when it is in the way."""
    try:
        return place.createXML(description)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_STORAGE_VOL_EXIST:
            raise
    place.storageVolLookupByName(name).delete()
    return place.createXML(description)


def grow_disk(connection, disk: Disk, machine_id: str | None):
    volume = get_volume(connection, disk)
    _, size, _ = volume.info()
    if size >= disk.size:
        return
    if machine_id is None:
        volume.resize(disk.size)
    else:
        machine = connection.lookupByUUIDString(machine_id)
        repeat_when_off(machine, lambda: resize_volume(machine, volume, disk))


def resize_volume(machine, volume, disk: Disk):
    if machine.isActive():
        machine.blockResize(volume.path(), disk.size, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
    else:
        volume.resize(disk.size)


def delete_disk(connection, pool: str, name: str):
    volume = find_or_none(connection.storagePoolLookupByName(pool).storageVolLookupByName, name)
    if volume is not None:
        with ignore_missing():
            volume.delete()


def list_disks(connection, pool: str) -> list[Disk]:
    found = []
    for volume in connection.storagePoolLookupByName(pool).listAllVolumes():
        if not volume.name().endswith(COMPLETE_SUFFIX):
            with ignore_missing():  # deleted by somebody since it was listed
                found.append(Disk(pool, volume.name(), volume.info()[1]))
    return found


def get_volume(connection, disk: Disk):
    return connection.storagePoolLookupByName(disk.pool).storageVolLookupByName(disk.name)


def create_seed(connection, pool: str, name: str, seed: Seed) -> Disk:
    content = build_iso(seed)
    place = connection.storagePoolLookupByName(pool)
    volume = create_volume(place, name, xml.raw(name, len(content)))
    upload(volume, io.BytesIO(content), len(content), lambda done, total: None)
    return Disk(pool, name, len(content))


def upload(volume, source, size: int, moved: Progress):
    """Fills a new volume. Whatever was sent is taken away again when the source or the node fails."""
    stream = volume.connect().newStream()
    try:
        volume.upload(stream, 0, size)
        done = 0
        while chunk := source.read(UPLOAD_CHUNK_BYTES):
            done += len(chunk)
            while chunk:
                chunk = chunk[stream.send(chunk) :]
            moved(done, size)
        stream.finish()
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            stream.abort()
        with contextlib.suppress(libvirt.libvirtError):
            volume.delete()
        raise


def find_or_none(find, name: str):
    """What `find` finds, or None when there is nothing of that name."""
    with ignore_missing():
        return find(name)
