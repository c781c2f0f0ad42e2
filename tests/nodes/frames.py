"""Ethernet frames as a guest might send them, and a listener for those that arrive."""

import ipaddress
import select
import socket
import struct
import threading

BROADCAST = "ff:ff:ff:ff:ff:ff"
ALL = 0x0003
"""Linux: every kind of frame."""

ARP, IPV4, IPV6, VLAN, RARP = 0x0806, 0x0800, 0x86DD, 0x8100, 0x8035
TCP, UDP, ICMPV6 = 6, 17, 58


def pack_mac(address: str) -> bytes:
    return bytes.fromhex(address.replace(":", ""))


def pack_address(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def ethernet(source: str, kind: int, payload: bytes) -> bytes:
    return pack_mac(BROADCAST) + pack_mac(source) + struct.pack("!H", kind) + payload.ljust(46, b"\0")


def arp(source: str, claimed_address: str, claimed_mac=None) -> bytes:
    sender = pack_mac(claimed_mac or source) + pack_address(claimed_address)
    return ethernet(source, ARP, struct.pack("!HHBBH", 1, IPV4, 6, 4, 2) + sender + bytes(6) + pack_address("10.0.0.1"))


def ipv4(source: str, address: str, payload: bytes, to="10.0.0.1", protocol=UDP) -> bytes:
    def header(checksum):
        start = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, checksum)
        return start + pack_address(address) + pack_address(to)

    total = sum(struct.unpack("!10H", header(0)))
    return ethernet(source, IPV4, header(~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + payload)


def ipv6(source: str, address: str, protocol: int, payload: bytes) -> bytes:
    start = struct.pack("!IHBB", 6 << 28, len(payload), protocol, 255)
    return ethernet(source, IPV6, start + pack_address(address) + pack_address("ff02::1") + payload)


def udp(port: int, to=9) -> bytes:
    return struct.pack("!HHHH", port, to, 12, 0) + bytes(4)


def icmpv6(kind: int, target="::") -> bytes:
    """Return a message of neighbor discovery about the target address."""
    return struct.pack("!BBHI", kind, 0, 0, 0) + pack_address(target)


class Listener:
    """Records the frames that come in at an interface (not those that go out)."""

    def __init__(self, interface: str):
        self.frames: list[bytes] = []
        self.ended = threading.Event()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
        self.socket.bind((interface, ALL))
        self.thread = threading.Thread(target=self.listen)

    def listen(self):
        while not self.ended.is_set():
            if select.select([self.socket], [], [], 0.1)[0]:
                frame, (_, _, direction, *_) = self.socket.recvfrom(2048)
                if direction != socket.PACKET_OUTGOING:
                    self.frames.append(frame)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.socket.close()

    def list_advertised(self) -> set[str]:
        """Return the target addresses of neighbor advertisements."""
        return {
            str(ipaddress.ip_address(frame[62:78]))
            for frame in self.frames
            if int.from_bytes(frame[12:14]) == IPV6 and frame[20] == ICMPV6 and frame[54] == 136
        }

    def list_senders(self) -> set[str]:
        """Return the MACs and IP addresses that frames came from."""
        senders = set()
        for frame in self.frames:
            kind, start = int.from_bytes(frame[12:14]), {ARP: 28, IPV4: 26, IPV6: 22}.get(int.from_bytes(frame[12:14]))
            senders.add(frame[6:12].hex(":"))
            if start:
                senders.add(str(ipaddress.ip_address(frame[start : start + (16 if kind == IPV6 else 4)])))
        return senders
