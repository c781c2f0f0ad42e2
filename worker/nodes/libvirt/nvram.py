"""Copying the NVRAM of a firmware to another node.

QEMU moves the content of the flash memory with the rest of a machine, but writes it to the file there only when the
guest's processors run. Those of a machine that is off never do, so its file is copied. libvirt reaches such a file only
by a pool over its folder; that pool has no definition, and is gone when the daemon restarts.
"""

from collections.abc import Callable
from pathlib import PurePosixPath

import libvirt
from lxml import etree

from worker.nodes.libvirt import xml
from worker.nodes.libvirt.pools import FIRMWARE_POOLS_PREFIX, create_volume, find_or_none

NVRAM_POOL = FIRMWARE_POOLS_PREFIX


def copy_nvram(
    connection: libvirt.virConnect,
    target: libvirt.virConnect,
    domain: libvirt.virDomain,
    copy: Callable[[libvirt.virStorageVol, libvirt.virStorageVol, int], None],
) -> None:
    """Copy the machine's NVRAM, if it has one. `copy(volume, target, size)` copies the bytes."""
    path = etree.fromstring(domain.XMLDesc()).findtext("os/nvram")
    if not path:
        return
    folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
    volume = ensure_pool(connection, folder).storageVolLookupByName(name)
    size = volume.info()[1]
    copy(volume, create_volume(ensure_pool(target, folder), name, xml.build_raw_volume_xml(name, size)), size)


def ensure_pool(
    connection: libvirt.virConnect, folder: str, name: str = NVRAM_POOL, flags: int = 0
) -> libvirt.virStoragePool:
    """Return the pool over the folder, refreshed."""
    pool = find_or_none(connection.storagePoolLookupByName, name)
    if pool is None:
        try:
            pool = connection.storagePoolCreateXML(xml.build_pool_xml(name, folder), flags)
        except libvirt.libvirtError:
            pool = connection.storagePoolLookupByName(name)  # another process created it
    pool.refresh()
    return pool
