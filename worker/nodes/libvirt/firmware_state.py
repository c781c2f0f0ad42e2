"""The variables of a machine's firmware and the state of its TPM: files of the node beside the machine's disks, which
libvirt reaches only by pools over their folders."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import PurePosixPath

import libvirt
from lxml import etree

from panel.core.messages import message
from worker.nodes.base import Refused
from worker.nodes.libvirt import nvram, pools, xml
from worker.nodes.libvirt.machines import get_domain

NVRAM_FOLDER, TPM_FOLDER = "/var/lib/libvirt/qemu/nvram", "/var/lib/libvirt/swtpm"
"""Where libvirt's system daemon stores them."""

TPM_POOL = f"{nvram.NVRAM_POOL}-tpm"
TPM_FILE = "tpm2-00.permall"


def read(connection: libvirt.virConnect, machine_id: str) -> dict[str, bytes]:
    domain = get_domain(connection, machine_id)
    definition, state = etree.fromstring(domain.XMLDesc()), {}
    if path := definition.findtext("os/nvram"):
        pool = nvram.ensure_pool(connection, str(PurePosixPath(path).parent))
        state["nvram"] = read_file(pool, PurePosixPath(path).name)
    if definition.find("devices/tpm") is not None and has_tpm_folder(connection, machine_id):
        with open_tpm_pool(connection, machine_id) as pool:
            state["tpm"] = read_file(pool, TPM_FILE)
    return {name: content for name, content in state.items() if content is not None}


def read_file(pool: libvirt.virStoragePool, name: str) -> bytes | None:
    """Return the content of a file, or None when it does not exist."""
    volume = pools.find_or_none(pool.storageVolLookupByName, name)
    if volume is None:
        return None
    stream, pieces = pool.connect().newStream(), []
    volume.download(stream, 0, 0)
    try:
        while data := stream.recv(pools.UPLOAD_CHUNK_BYTES):
            pieces.append(data)
        stream.finish()
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            stream.abort()
        raise
    return b"".join(pieces)


def write(connection: libvirt.virConnect, machine_id: str, state: dict[str, bytes]) -> None:
    domain = get_domain(connection, machine_id)
    if domain.isActive():
        raise Refused(message("The machine is on."), f"machine {machine_id}")
    if "nvram" in state:
        path = PurePosixPath(
            etree.fromstring(domain.XMLDesc()).findtext("os/nvram") or f"{NVRAM_FOLDER}/{domain.name()}_VARS.fd"
        )
        write_file(nvram.ensure_pool(connection, str(path.parent)), path.name, state["nvram"])
    if "tpm" in state:
        with open_tpm_pool(connection, machine_id, libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD) as pool:
            write_file(pool, TPM_FILE, state["tpm"])


def write_file(pool: libvirt.virStoragePool, name: str, content: bytes) -> None:
    volume = pools.create_volume(pool, name, xml.build_raw_volume_xml(name, len(content)))
    pools.upload(volume, io.BytesIO(content), len(content), lambda done, total: None)


def has_tpm_folder(connection: libvirt.virConnect, machine_id: str) -> bool:
    pool = nvram.ensure_pool(connection, TPM_FOLDER, TPM_POOL, libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
    return pools.find_or_none(pool.storageVolLookupByName, machine_id) is not None


@contextlib.contextmanager
def open_tpm_pool(connection: libvirt.virConnect, machine_id: str, flags: int = 0) -> Iterator[libvirt.virStoragePool]:
    """Yield a pool over the folder with the state of the machine's TPM. It does not outlive the block."""
    description = xml.build_pool_xml(f"{TPM_POOL}-{machine_id}", f"{TPM_FOLDER}/{machine_id}/tpm2")
    with contextlib.suppress(libvirt.libvirtError):  # a killed worker left it
        connection.storagePoolLookupByName(f"{TPM_POOL}-{machine_id}").destroy()
    pool = connection.storagePoolCreateXML(description, flags)
    try:
        pool.refresh()
        yield pool
    finally:
        pool.destroy()
