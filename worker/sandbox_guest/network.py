"""The network interface of a sandbox, with a static address.

System calls set it, because programs would take longer to start.
"""

import errno
import fcntl
import os
import socket
import struct
from dataclasses import dataclass
from typing import Any

INTERFACE = "eth0"
SIOCADDRT, SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x890B, 0x8913, 0x8914, 0x8916, 0x891C
IFF_UP = 0x1
RTF_UP, RTF_GATEWAY = 0x1, 0x2
MAX_NAMESERVERS = 3
"""More are ignored by the resolver of libc."""


@dataclass(frozen=True)
class Network:
    """IPv4 addresses in four bytes."""

    address: bytes
    mask: bytes
    gateway: bytes
    nameservers: tuple[str, ...]


def parse_network(document: Any) -> Network | None:
    """Return the network of an identity, or None without one; raises ValueError when a field is wrong."""
    if document is None:
        return None
    if not isinstance(document, dict):
        raise ValueError("network is not an object")
    address, _, length = str(document.get("address")).partition("/")
    if not (length.isascii() and length.isdigit() and 0 < int(length) <= 32):
        raise ValueError("network.address is not valid")
    nameservers = document.get("nameservers") or []
    if not isinstance(nameservers, list):
        raise ValueError("network.nameservers is not a list")
    mask = (0xFFFFFFFF << (32 - int(length)) & 0xFFFFFFFF).to_bytes(4, "big")
    gateway = parse_address(document.get("gateway"), "gateway")
    names = tuple(socket.inet_ntoa(parse_address(name, "nameservers")) for name in nameservers[:MAX_NAMESERVERS])
    return Network(parse_address(address, "address"), mask, gateway, names)


def parse_address(text: Any, name: str) -> bytes:
    try:
        return socket.inet_pton(socket.AF_INET, text)
    except (OSError, TypeError) as error:
        raise ValueError(f"network.{name} is not valid") from error


def build_resolver_file(network: Network) -> str:
    """Return the text of /etc/resolv.conf."""
    return "".join(f"nameserver {address}\n" for address in network.nameservers)


def configure_interface(network: Network) -> None:
    """Set address and default route and bring the interface up. A guest without it, or without its driver, stays as it
    is. Repeated, it changes nothing."""
    if not os.path.exists(f"/sys/class/net/{INTERFACE}"):
        return
    name = INTERFACE.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for request, value in ((SIOCSIFADDR, network.address), (SIOCSIFNETMASK, network.mask)):
            fcntl.ioctl(control, request, struct.pack("16s16s8x", name, pack_address(value)))
        answer = fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16s24x", name))
        [flags] = struct.unpack_from("h", answer, 16)
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", name, flags | IFF_UP))
        try:
            fcntl.ioctl(control, SIOCADDRT, build_default_route(network.gateway))
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise


def pack_address(address: bytes) -> bytes:
    """Return a `struct sockaddr_in`."""
    return struct.pack("HH4s8x", socket.AF_INET, 0, address)


def build_default_route(gateway: bytes) -> bytes:
    """Return a `struct rtentry` of a 64-bit kernel."""
    anything = pack_address(bytes(4))
    return struct.pack("8x16s16s16sH62x", anything, pack_address(gateway), anything, RTF_UP | RTF_GATEWAY)
