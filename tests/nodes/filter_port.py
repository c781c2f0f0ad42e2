"""A port of a bridge, where a guest would be, and the frames that the guard lets pass or drops."""

import contextlib
import os
import uuid
from dataclasses import dataclass

import libvirt
from lxml import etree
from lxml.builder import E

from tests.nodes.frames import ICMPV6, RARP, UDP, VLAN, Listener, arp, ethernet, icmpv6, ipv4, ipv6, udp
from worker.nodes.base import Nic
from worker.nodes.libvirt import filters, neighbors

OWN, OTHER = "52:54:00:0a:0b:01", "52:54:00:0a:0b:02"
OWN4, OWN4_TOO, OTHER4 = "10.0.0.21", "10.0.0.22", "10.0.0.23"
OWN6, OTHER6, LINK_LOCAL = "fd00::21", "fd00::23", "fe80::5054:ff:fe0a:b01"

PASSES = {
    "arp for its address": arp(OWN, OWN4),
    "arp for its other address": arp(OWN, OWN4_TOO),
    "arp probe": arp(OWN, "0.0.0.0"),
    "ipv4": ipv4(OWN, OWN4, udp(1000)),
    "ipv4 from its other address": ipv4(OWN, OWN4_TOO, udp(1000)),
    "dhcp client": ipv4(OWN, OWN4, udp(68, 67)),
    "ipv6": ipv6(OWN, OWN6, UDP, udp(1000)),
    "ping over ipv6": ipv6(OWN, OWN6, ICMPV6, icmpv6(128)),
    "neighbor solicitation": ipv6(OWN, LINK_LOCAL, ICMPV6, icmpv6(135)),
    "neighbor advertisement": ipv6(OWN, LINK_LOCAL, ICMPV6, icmpv6(136, LINK_LOCAL)),
    "neighbor advertisement from its address": ipv6(OWN, OWN6, ICMPV6, icmpv6(136, OWN6)),
    "neighbor advertisement for its prefix": ipv6(OWN, OWN6, ICMPV6, icmpv6(136, "fd01::7")),
    "router solicitation": ipv6(OWN, LINK_LOCAL, ICMPV6, icmpv6(133)),
    "multicast listener report": ipv6(OWN, LINK_LOCAL, ICMPV6, icmpv6(143)),
    "duplicate address detection": ipv6(OWN, "::", ICMPV6, icmpv6(135)),
    "announcement after a migration": ethernet(OWN, RARP, bytes(28)),
}

DROPPED = {
    "ipv4 from another mac": ipv4(OTHER, OWN4, udp(1000)),
    "arp from another mac": arp(OTHER, OWN4),
    "ipv6 from another mac": ipv6(OTHER, OWN6, UDP, udp(1000)),
    "arp for another's address": arp(OWN, OTHER4),
    "arp that names another mac": arp(OWN, OWN4, claimed_mac=OTHER),
    "ipv4 from another's address": ipv4(OWN, OTHER4, udp(1000)),
    "ipv6 from another's address": ipv6(OWN, OTHER6, UDP, udp(1000)),
    "neighbor solicitation from another's address": ipv6(OWN, OTHER6, ICMPV6, icmpv6(135)),
    "neighbor solicitation from another's link-local address": ipv6(OWN, "fe80::1", ICMPV6, icmpv6(135)),
    "neighbor advertisement from another's link-local address": ipv6(OWN, "fe80::1", ICMPV6, icmpv6(136, OWN6)),
    "neighbor advertisement for another's address": ipv6(OWN, OWN6, ICMPV6, icmpv6(136, OTHER6)),
    "neighbor advertisement for another's link-local address": ipv6(OWN, LINK_LOCAL, ICMPV6, icmpv6(136, "fe80::1")),
    "neighbor advertisement beside its prefix": ipv6(OWN, OWN6, ICMPV6, icmpv6(136, "fd02::7")),
    "traffic from a link-local address": ipv6(OWN, "fe80::1", UDP, udp(1000)),
    "dhcp server": ipv4(OWN, OWN4, udp(67, 68)),
    "dhcpv6 server": ipv6(OWN, OWN6, UDP, udp(547, 546)),
    "router advertisement": ipv6(OWN, LINK_LOCAL, ICMPV6, icmpv6(134)),
    "router advertisement from its address": ipv6(OWN, OWN6, ICMPV6, icmpv6(134)),
    "redirect": ipv6(OWN, "fe80::1", ICMPV6, icmpv6(137)),
    "tagged frame": ethernet(OWN, VLAN, b"\0\1" + ipv4(OWN, OTHER4, udp(1000))[12:]),
    "another protocol": ethernet(OWN, 0x88CC, b"neighbor discovery of switches"),
}


@dataclass
class Port:
    """A port of the hypervisor's bridge, where a guest would be."""

    connection: libvirt.virConnect
    name: str
    cable: int
    bridge: str

    @contextlib.contextmanager
    def apply_filter(self):
        owner = E.owner(E.name("test"), E.uuid(str(uuid.uuid4())))
        nic = Nic(OWN, "public", (OWN4, OWN4_TOO, OWN6), prefixes=("fd01::/64",))
        reference = filters.build_reference(nic)
        neighbors.allow_advertisements([nic])
        binding = E.filterbinding(owner, E.portdev(name=self.name), E.mac(address=OWN), reference)
        bound = self.connection.nwfilterBindingCreateXML(etree.tostring(binding, encoding="unicode"))
        yield
        bound.delete()
        neighbors.delete_rules([OWN])

    def send_frames(self, frames: dict[str, bytes]) -> set[str]:
        """Send the frames; return the names of those that arrive. One that passes is sent last: what has not arrived
        before it never will."""
        last = arp(OWN, OWN4) + uuid.uuid4().bytes
        with Listener(self.bridge) as listener:
            for frame in frames.values():
                os.write(self.cable, frame)
            while last not in listener.frames:
                os.write(self.cable, last)
                listener.ended.wait(0.05)
            arrived = {frame.rstrip(b"\0") for frame in listener.frames}
        return {name for name, frame in frames.items() if frame.rstrip(b"\0") in arrived}
