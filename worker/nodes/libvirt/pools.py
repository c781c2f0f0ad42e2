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
from worker.nodes.libvirt.errors import absent_is_fine, repeat_when_off
from worker.nodes.libvirt.seed_iso import iso

COMPLETE = ".complete"

CHUNK = 262_120
"""Bytes that every version of libvirt sends in one packet."""

PATIENCE, LOOK = 20.0, 0.1
"""Seconds that another process has to start a pool, and between two looks at it."""


def prepare_pool(connection: libvirt.virConnect, name: str, path: str) -> Pool:
    found = lookup(connection.storagePoolLookupByName, name)
    if found is not None and PurePosixPath(target(found)) != PurePosixPath(path):
        if found.isActive():
            found.destroy()
        found = connection.storagePoolDefineXML(xml.pool(name, path, found.UUIDString()))
    found = found or defined(connection, name, path)
    activate(found)
    found.setAutostart(1)
    return describe(found)


def defined(connection, name, path):
    try:
        return connection.storagePoolDefineXML(xml.pool(name, path))
    except libvirt.libvirtError:
        quicker = lookup(connection.storagePoolLookupByName, name)  # another process prepares it, too
        if quicker is None:
            raise
        return quicker


def activate(found):
    """Waits for another process that does it at this moment: libvirt refuses the second one."""
    until = time.monotonic() + PATIENCE
    while not found.isActive():
        try:
            found.create(libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID or time.monotonic() > until:
                raise
            time.sleep(LOOK)


def pools(connection) -> tuple[Pool, ...]:
    """The active pools, with the room they have at this moment."""
    found = connection.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)
    for pool in found:
        with contextlib.suppress(libvirt.libvirtError):  # a transfer goes on: the last figures have to do
            pool.refresh()
    return tuple(describe(pool) for pool in found)


def describe(pool) -> Pool:
    _, capacity, _, free = pool.info()
    return Pool(pool.name(), target(pool), capacity, free)


def target(pool) -> str:
    return etree.fromstring(pool.XMLDesc()).findtext("target/path") or ""


def has_image(connection, pool: str, image: Image) -> bool:
    names = connection.storagePoolLookupByName(pool).listVolumes()
    return image.name in names and image.name + COMPLETE in names


def put_image(connection, pool: str, image: Image, moved: Progress):
    place = connection.storagePoolLookupByName(pool)
    if lookup(place.storageVolLookupByName, image.name + COMPLETE) is not None:
        return
    with image.path.open("rb") as source:
        upload(create(place, image.name, xml.qcow2(image.name, 0)), source, image.size, moved)
    if length(place, image.name) < image.size:
        detail = f"{image.name} is shorter than {image.size} bytes: its file is, or another transfer replaced it"
        raise Refused("The image did not arrive as a whole.", detail)
    create(place, image.name + COMPLETE, xml.raw(image.name + COMPLETE, 0))


def length(place, name: str) -> int:
    """Bytes of the volume's file. A second transfer of the same image replaces the file of the first."""
    return int(etree.fromstring(place.storageVolLookupByName(name).XMLDesc()).findtext("physical") or 0)


def delete_image(connection, pool: str, name: str):
    """The mark goes first: what is left when this is cut off does not count as an image."""
    refuse_base(connection.storagePoolLookupByName(pool), name)
    delete_disk(connection, pool, name + COMPLETE)
    delete_disk(connection, pool, name)


def refuse_base(place, name: str):
    image = lookup(place.storageVolLookupByName, name)
    for volume in place.listAllVolumes() if image is not None else ():
        with absent_is_fine():
            if etree.fromstring(volume.XMLDesc()).findtext("backingStore/path") == image.path():
                raise Refused("Disks are based on the image.", f"{volume.name()} is based on {name}")


def create_disk(connection, disk: Disk, image: Image | None):
    place = connection.storagePoolLookupByName(disk.pool)
    base = None
    if image:
        place.storageVolLookupByName(image.name + COMPLETE)
        base = place.storageVolLookupByName(image.name).path()
    create(place, disk.name, xml.qcow2(disk.name, disk.size, base))


def create(place, name: str, description: str):
    """A new volume in the place of any that was there. The other is looked for only when it is in the way."""
    try:
        return place.createXML(description)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_STORAGE_VOL_EXIST:
            raise
    place.storageVolLookupByName(name).delete()
    return place.createXML(description)


def grow_disk(connection, disk: Disk, machine_id: str | None):
    volume = find_disk(connection, disk)
    _, size, _ = volume.info()
    if size >= disk.size:
        return
    if machine_id is None:
        volume.resize(disk.size)
    else:
        machine = connection.lookupByUUIDString(machine_id)
        repeat_when_off(machine, lambda: grow(machine, volume, disk))


def grow(machine, volume, disk: Disk):
    if machine.isActive():
        machine.blockResize(volume.path(), disk.size, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
    else:
        volume.resize(disk.size)


def delete_disk(connection, pool: str, name: str):
    volume = lookup(connection.storagePoolLookupByName(pool).storageVolLookupByName, name)
    if volume is not None:
        with absent_is_fine():
            volume.delete()


def disks(connection, pool: str) -> list[Disk]:
    found = []
    for volume in connection.storagePoolLookupByName(pool).listAllVolumes():
        if not volume.name().endswith(COMPLETE):
            with absent_is_fine():  # deleted by somebody since it was listed
                found.append(Disk(pool, volume.name(), volume.info()[1]))
    return found


def find_disk(connection, disk: Disk):
    return connection.storagePoolLookupByName(disk.pool).storageVolLookupByName(disk.name)


def write_seed(connection, pool: str, name: str, seed: Seed) -> Disk:
    content = iso(seed)
    place = connection.storagePoolLookupByName(pool)
    volume = create(place, name, xml.raw(name, len(content)))
    upload(volume, io.BytesIO(content), len(content), lambda done, total: None)
    return Disk(pool, name, len(content))


def upload(volume, source, size: int, moved: Progress):
    """Fills a new volume. Whatever was sent is taken away again when the source or the node fails."""
    stream = volume.connect().newStream()
    try:
        volume.upload(stream, 0, size)
        done = 0
        while chunk := source.read(CHUNK):
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


def lookup(find, name: str):
    """What `find` finds, or None when there is nothing of that name."""
    with absent_is_fine():
        return find(name)
