"""Screens of running machines: who is let in, and the way there."""

from urllib.parse import parse_qs, quote, urlsplit

import libvirt
from lxml import etree

from worker.nodes.base import Endpoint, Refused
from worker.nodes.libvirt.machines import get_domain
from worker.nodes.libvirt.xml import VNC_LENGTH, to_text

WILDCARD_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a machine itself finds what listens on all its addresses."""

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1", "localhost")

SSH_TRANSPORTS = ("ssh", "libssh", "libssh2")
"""Transports of libvirt that end in an SSH server."""


def open_console(connection, machine_id: str, password: str, uri: str) -> Endpoint:
    domain = get_domain(connection, machine_id)
    if not domain.isActive():
        raise Refused("The machine is off.", f"machine {machine_id}")
    graphics = etree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE)).find("devices/graphics[@type='vnc']")
    if graphics is None or not graphics.get("passwd"):
        raise Refused("The machine has no screen.", f"machine {machine_id} is defined without VNC or its password")
    host, via = find_route(graphics.get("listen", ""), uri)
    graphics.set("passwd", password[:VNC_LENGTH])
    graphics.attrib.pop("passwdValidTo", None)
    domain.updateDeviceFlags(to_text(graphics), libvirt.VIR_DOMAIN_AFFECT_LIVE)
    return Endpoint(host, int(graphics.get("port")), password, via)


def find_route(listens: str, uri: str) -> tuple[str, str | None]:
    """The host to call for what listens there on the node, and the SSH target through which. A node without a name is
    this machine; one that libvirt reaches by SSH is reached so by the panel too: a screen's bytes are not encrypted."""
    address = urlsplit(uri)
    here = WILDCARD_ADDRESSES.get(listens, listens)
    if not address.hostname:
        return here, None
    if address.scheme.rpartition("+")[2] in SSH_TRANSPORTS:
        return here, ssh_target(address)
    if listens in LOOPBACK_ADDRESSES:
        detail = (
            f"{address.hostname}: screens listen on {listens}; set vnc_listen in its qemu.conf to an address the panel "
            "reaches, or add the node by qemu+ssh://"
        )
        raise Refused("The screen cannot be reached from the panel.", detail)
    return (address.hostname if listens in WILDCARD_ADDRESSES else listens), None


def ssh_target(address) -> str:
    """The part of libvirt's address that SSH needs."""
    keys = parse_qs(address.query).get("keyfile", ())
    return f"ssh://{address.netloc}" + "".join(f"?keyfile={quote(key)}" for key in keys[:1])
