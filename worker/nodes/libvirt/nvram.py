"""The variables of a firmware, carried to another node.

QEMU moves what is in the flash memory with the rest of a machine, but writes it into the file there only when the
guest's processors go on. Those of a machine that is off never do, so its file is copied. libvirt gives no other way to
such a file than a pool over its folder; that pool has no definition, and is gone when the daemon starts anew.
"""

from pathlib import PurePosixPath

import libvirt
from lxml import etree

from worker.nodes.libvirt import xml
from worker.nodes.libvirt.pools import create_volume, find_or_none

NVRAM_POOL = "panel-firmware"


def copy_nvram(connection, target, domain, copy):
    """Copies the machine's variables, if it has some. `copy(volume, made, size)` moves the bytes."""
    path = etree.fromstring(domain.XMLDesc()).findtext("os/nvram")
    if not path:
        return
    folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
    volume = ensure_pool(connection, folder).storageVolLookupByName(name)
    size = volume.info()[1]
    copy(volume, create_volume(ensure_pool(target, folder), name, xml.raw(name, size)), size)


def ensure_pool(connection: libvirt.virConnect, folder: str):
    """The pool over the folder, with what lies there now."""
    found = find_or_none(connection.storagePoolLookupByName, NVRAM_POOL)
    if found is None:
        try:
            found = connection.storagePoolCreateXML(xml.pool(NVRAM_POOL, folder))
        except libvirt.libvirtError:
            found = connection.storagePoolLookupByName(NVRAM_POOL)  # somebody was faster
    found.refresh()
    return found
