"""VNC servers of running machines: their password and their address."""

from urllib.parse import SplitResult, parse_qs, quote, urlsplit

import libvirt
from lxml import etree

from panel.core.messages import message
from worker.nodes.base import Endpoint, Refused
from worker.nodes.libvirt.machines import get_domain
from worker.nodes.libvirt.xml import VNC_LENGTH, to_text

WILDCARD_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Wildcard address → the loopback address of the same server."""

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1", "localhost")

SSH_TRANSPORTS = ("ssh", "libssh", "libssh2")
"""libvirt's transports that use an SSH server."""


def open_console(connection: libvirt.virConnect, machine_id: str, password: str, uri: str) -> Endpoint:
    domain = get_domain(connection, machine_id)
    if not domain.isActive():
        raise Refused(message("The machine is off."), f"machine {machine_id}")
    graphics = etree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE)).find("devices/graphics[@type='vnc']")
    if graphics is None or not graphics.get("passwd"):
        raise Refused(
            message("The instance has no VNC console."), f"machine {machine_id} is defined without VNC or its password"
        )
    host, via = find_route(graphics.get("listen", ""), uri)
    graphics.set("passwd", password[:VNC_LENGTH])
    graphics.attrib.pop("passwdValidTo", None)
    domain.updateDeviceFlags(to_text(graphics), libvirt.VIR_DOMAIN_AFFECT_LIVE)
    return Endpoint(host, int(graphics.get("port")), password, via)


def find_route(listen: str, uri: str) -> tuple[str, str | None]:
    """Return the host to connect to for that listen address, and the SSH target through which to reach it. A URI
    without a host is this machine. A node that libvirt reaches by SSH is reached by SSH here too: VNC is not
    encrypted."""
    address = urlsplit(uri)
    local_address = WILDCARD_ADDRESSES.get(listen, listen)
    if not address.hostname:
        return local_address, None
    if address.scheme.rpartition("+")[2] in SSH_TRANSPORTS:
        return local_address, parse_ssh_target(address)
    if listen in LOOPBACK_ADDRESSES:
        detail = (
            f"{address.hostname}: screens listen on {listen}; set vnc_listen in its qemu.conf to an address the panel "
            "reaches, or add the node by qemu+ssh://"
        )
        raise Refused(message("The panel cannot reach the VNC server."), detail)
    return (address.hostname if listen in WILDCARD_ADDRESSES else listen), None


def parse_ssh_target(address: SplitResult) -> str:
    """Return the part of libvirt's URI that SSH needs."""
    keys = parse_qs(address.query).get("keyfile", ())
    return f"ssh://{address.netloc}" + "".join(f"?keyfile={quote(key)}" for key in keys[:1])
