"""What guest agents can be asked of many guests, and of the file systems of one."""

import contextlib

import libvirt
from lxml import etree

from worker.nodes.base import FileSystem
from worker.nodes.libvirt.agent import running, tell

CONNECTED = "devices/channel/target[@name='org.qemu.guest_agent.0'][@state='connected']"


def answering(connection) -> frozenset[str]:
    """libvirt notices by itself when an agent opens or closes its end of the channel, and keeps that in the machine's
    description: no guest is asked."""
    found = set()
    for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING):
        with contextlib.suppress(libvirt.libvirtError):  # it stopped since it was listed
            if etree.fromstring(domain.XMLDesc()).find(CONNECTED) is not None:
                found.add(domain.UUIDString())
    return frozenset(found)


def filesystems(connection, machine_id: str) -> list[FileSystem]:
    found = tell(running(connection, machine_id), "guest-get-fsinfo")
    return [
        FileSystem(each["mountpoint"], each["type"], each["total-bytes"], each.get("used-bytes", 0))
        for each in found
        if each.get("total-bytes")
    ]
