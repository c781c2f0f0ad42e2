"""The network of a local hypervisor: a bridge with addresses of this machine, from which guests connect out by NAT.

Addresses are static (the panel assigns them), so no DHCP or DNS server is needed.
"""

import ipaddress
from dataclasses import dataclass

import libvirt
from lxml.builder import E
from lxml.etree import tostring


@dataclass(frozen=True)
class PublicNetwork:
    bridge: str = "panelbr0"
    gateway4: str = "10.88.0.1/24"
    gateway6: str = "fd88::1/64"
    name: str = "public"


def ensure_network(connection: libvirt.virConnect, network: PublicNetwork) -> None:
    """After success the network is active. An existing one is not changed: guests may use it."""
    try:
        existing = connection.networkLookupByName(network.name)
    except libvirt.libvirtError:
        existing = connection.networkDefineXML(build_network_xml(network))
        existing.setAutostart(1)
    if not existing.isActive():
        existing.create()


def build_network_xml(network: PublicNetwork) -> str:
    four, six = ipaddress.ip_interface(network.gateway4), ipaddress.ip_interface(network.gateway6)
    return tostring(
        E.network(
            E.name(network.name),
            E.forward(mode="nat"),
            E.bridge(name=network.bridge, stp="off", delay="0"),
            E.dns(enable="no"),
            E.ip(address=str(four.ip), netmask=str(four.netmask)),
            E.ip(family="ipv6", address=str(six.ip), prefix=str(six.network.prefixlen)),
        ),
        encoding="unicode",
    )
