"""A guest uses its own addresses and no others: the filter frame by frame, and a real guest that tries others."""

import contextlib
import socket
import subprocess
import time
import uuid
from dataclasses import dataclass

import libvirt
import pytest
from lxml import etree

from tests.nodes.driver_lab import find_status, wait_until
from tests.nodes.filter_port import DROPPED, LINK_LOCAL, OTHER, OWN, OWN4, OWN6, PASSES
from tests.nodes.frames import Listener
from worker.nodes.base import Machine, Nic
from worker.nodes.libvirt import LibvirtNode, filters, firewall, neighbors

pytestmark = pytest.mark.guest


def test_all_frames_pass_without_filter(port):
    frames = {
        name: frame for name, frame in {**PASSES, **DROPPED}.items() if name != "tagged frame"
    }  # arrives untagged
    assert port.send_frames(frames) == set(frames)


def test_frames_from_own_addresses_pass_filter(port):
    with port.apply_filter():
        assert port.send_frames(PASSES) == set(PASSES)


def test_other_frames_are_dropped_by_filter(port):
    with port.apply_filter():
        assert port.send_frames(DROPPED) == set()


@dataclass(frozen=True)
class NetworkGuest:
    """A running guest, seen from its inside and from the host's end of its NIC."""

    node: LibvirtNode
    machine: Machine
    tap: str

    def run_script(self, script: str) -> bool:
        """Run the script in the guest; return whether it succeeded."""
        return self.node.agent_run(self.machine.id, ["sh", "-c", script]).exit_code == 0

    def add_addresses(self, *addresses: str):
        """Add the addresses, to be used at once, without duplicate address detection."""
        commands = [f"ip addr add {address} dev eth0" for address in addresses]
        assert self.run_script("; ".join(["echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad", *commands]))

    def expect_no_answer(self, tap_listener: Listener, sender: str, ping: str):
        """Repeat the ping until the host's end of the NIC has seen its sender; it never succeeds."""

        def has_left():
            assert not self.run_script(ping)
            return sender in tap_listener.list_senders()

        wait_until(has_left, seconds=30)


@pytest.fixture
def network_guest(libvirt_lab, disposable_guest):
    with contextlib.closing(libvirt.open(libvirt_lab.node.spec.uri)) as connection:
        definition = etree.fromstring(connection.lookupByUUIDString(disposable_guest.id).XMLDesc())
    return NetworkGuest(libvirt_lab.node, disposable_guest, definition.find("devices/interface/target").get("dev"))


def test_guest_cannot_answer_for_a_neighbor(hypervisor, network_guest):
    """Neighbor discovery. The guest takes part in an anycast address that is not its own: it
    answers who asks for it, from its own address."""
    guest, bridge = network_guest, hypervisor.network.bridge
    stolen, own = "fd99:7::100", guest.machine.nics[0].addresses[1]
    run_command("ip", "-6", "route", "replace", f"{stolen}/128", "dev", bridge)
    assert guest.run_script("echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
    guest.add_addresses("fd99:7::101/126")
    with Listener(guest.tap) as tap_listener, Listener(bridge) as arrived:
        limit = time.monotonic() + 30
        while not (stolen in tap_listener.list_advertised() and own in arrived.list_advertised()):
            assert time.monotonic() < limit, (tap_listener.list_advertised(), arrived.list_advertised())
            run_command("ip", "-6", "neigh", "flush", "dev", bridge)
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as asking:
                for address in (stolen, own):
                    asking.sendto(b"", (address, 9))
            time.sleep(0.5)
    assert stolen not in arrived.list_advertised()


def run_command(*arguments):
    subprocess.run(arguments, check=True, capture_output=True)


def test_neighbor_rules_are_restored_from_libvirt_definitions(port):
    """After a start of the host the packet filter is empty."""
    nic = Nic(OWN, "public", (OWN4, OWN6), prefixes=("fd01::/64",))
    firewall.define_filters(port.connection, [nic])
    neighbors.allow_advertisements([nic])
    written = list_rules(OWN)
    assert "@th,64,64 0xfd01000000000000 accept" in written
    assert len(written.splitlines()) > 5
    neighbors.delete_rules([OWN])
    assert list_rules(OWN) == ""
    neighbors.restore_rules(port.connection)
    assert list_rules(OWN) == written
    neighbors.delete_rules([OWN])
    firewall.delete_filters(port.connection, [OWN])


def list_rules(mac):
    command = ["nft", "list", "chain", *neighbors.NFT_TABLE.split(), neighbors.make_chain_name(mac)]
    return subprocess.run(command, capture_output=True, text=True).stdout


def test_nic_filter_of_earlier_release_is_upgraded(port):
    nic = Nic(OWN, "public", (OWN4, OWN6))
    earlier = etree.fromstring(filters.build_guard())
    earlier.set("name", filters.EARLIER_GUARD_NAME)
    earlier.find("uuid").text = str(uuid.uuid4())
    port.connection.nwfilterDefineXML(etree.tostring(earlier, encoding="unicode"))
    card = etree.fromstring(firewall.build_filter(nic))
    card.find("filterref").set("filter", filters.EARLIER_GUARD_NAME)
    card.find("filterref").remove(card.find("filterref/parameter[@name='LINK_LOCAL']"))
    port.connection.nwfilterDefineXML(etree.tostring(card, encoding="unicode"))
    for _ in range(2):
        firewall.upgrade_filters(port.connection, [OWN, OTHER])
    rule = etree.fromstring(port.connection.nwfilterLookupByName(firewall.make_filter_name(OWN)).XMLDesc()).find(
        "filterref"
    )
    assert rule.get("filter") == filters.GUARD_NAME
    assert rule.xpath("string(parameter[@name='LINK_LOCAL']/@value)") == LINK_LOCAL
    firewall.delete_filters(port.connection, [OWN])
    port.connection.nwfilterLookupByName(filters.EARLIER_GUARD_NAME).undefine()


def test_nic_counters_are_seen_from_the_guest(libvirt_lab, disposable_guest):
    """A guest that is sent much and sends little has received much: libvirt counts from the host's end."""
    node, guest = libvirt_lab.node, disposable_guest
    [nic] = guest.nics

    def read_counters():
        status = find_status(node, guest.id)
        return status.received[nic.mac], status.sent[nic.mac]

    received, sent = read_counters()
    limit = time.monotonic() + 60
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
        while read_counters()[0] < received + 200_000:
            assert time.monotonic() < limit, "the guest was sent more than it counts"
            for _ in range(10):  # not all at once: a guest that is emulated takes its time
                host.sendto(bytes(1400), (nic.addresses[0], 9))
            time.sleep(0.05)
    assert read_counters()[1] < sent + 100_000


def test_guest_cannot_use_other_addresses(hypervisor, network_guest):
    """What the guest tries leaves it (its side of the NIC sees it) and does not reach the network."""
    network, guest = hypervisor.network, network_guest
    gateway4, gateway6 = (address.split("/")[0] for address in (network.gateway4, network.gateway6))
    stolen4, stolen6 = f"{gateway4}99", f"{gateway6}99"
    changed_mac = "52:54:00:66:66:66"
    with Listener(guest.tap) as tap_listener, Listener(network.bridge) as arrived:
        wait_until(lambda: guest.run_script(f"ping -c 1 -W 2 {gateway4}"), seconds=30)
        wait_until(lambda: guest.run_script(f"ping -6 -c 1 -W 2 {gateway6}"), seconds=30)
        assert guest.run_script("ip addr flush dev eth0")
        guest.add_addresses(f"{stolen4}/24", f"{stolen6}/64")
        guest.expect_no_answer(tap_listener, stolen4, f"ping -c 1 -W 1 {gateway4}")
        guest.expect_no_answer(tap_listener, stolen6, f"ping -6 -c 1 -W 1 {gateway6}")
        guest.run_script(f"ip link set eth0 down; ip link set eth0 address {changed_mac}; ip link set eth0 up")
        guest.expect_no_answer(tap_listener, changed_mac, f"ping -c 1 -W 1 {gateway4}")
    assert set(guest.machine.nics[0].addresses) <= arrived.list_senders()
    assert not {stolen4, stolen6, changed_mac} & arrived.list_senders()
