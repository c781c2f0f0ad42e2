"""Firewalls of NICs by real connections. In place of guests there are network namespaces at the hypervisor's bridge:
they have whole network stacks, and libvirt filters their ports as it does guests'."""

import contextlib
import select
import subprocess
import sys
import uuid
from dataclasses import dataclass, field

import libvirt
import pytest
from lxml import etree
from lxml.builder import E

from tests.support.waiting import wait_until
from worker.nodes.base import FirewallRule, Nic
from worker.nodes.libvirt import filters, firewall

pytestmark = pytest.mark.guest

EGRESS_RULES = (FirewallRule("out", 4), FirewallRule("out", 6))
SERVER_SCRIPT = """
import socket, sys
s = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    s.accept()[0].close()
"""
CLIENT_SCRIPT = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor

def try_connect(target):
    ip, port = target.rsplit("/", 1)
    try:
        socket.create_connection((ip, int(port)), timeout=3).close()
    except OSError:
        return
    print(target)

with ThreadPoolExecutor(16) as threads:
    list(threads.map(try_connect, sys.argv[1:]))
"""
"""Prints which of its arguments (ADDRESS/PORT) accept a connection. All are tried at the same time, because one that is
dropped takes the whole timeout."""

QUIET_SECONDS = 2.0
"""Seconds without an answer to a ping every 0.2 seconds, after which the connection counts as cut."""


def run_command(*arguments):
    subprocess.run(arguments, check=True, capture_output=True, timeout=60)


@dataclass
class Port:
    """A network stack with servers, behind a port of the bridge."""

    connection: libvirt.virConnect
    name: str
    mac: str
    four: str
    six: str
    servers: list = field(default_factory=list)
    binding: libvirt.virNWFilterBinding | None = None

    def plug_in(self, bridge):
        inside, outside = f"{self.name}g", f"{self.name}h"
        run_command("ip", "netns", "add", self.name)
        run_command("ip", "link", "add", outside, "type", "veth", "peer", "name", inside)
        run_command("ip", "link", "set", inside, "netns", self.name)
        run_command("ip", "link", "set", outside, "master", bridge, "up")
        run_command("ip", "-n", self.name, "link", "set", inside, "address", self.mac, "up")
        run_command("ip", "-n", self.name, "address", "add", f"{self.four}/24", "dev", inside)
        run_command("ip", "-n", self.name, "address", "add", f"{self.six}/64", "dev", inside, "nodad")
        for port in (25, 7001, 7002):
            self.servers.append(subprocess.Popen(self.command_inside(sys.executable, "-c", SERVER_SCRIPT, str(port))))

    def command_inside(self, *arguments):
        return "ip", "netns", "exec", self.name, *arguments

    def set_filter(self, **facts):
        firewall.define_filters(self.connection, [Nic(self.mac, "public", (self.four, self.six), **facts)])
        if self.binding is None:
            owner = E.owner(E.name(self.name), E.uuid(str(uuid.uuid4())))
            reference = E.filterref(filter=firewall.make_filter_name(self.mac))
            parts = owner, E.portdev(name=f"{self.name}h"), E.mac(address=self.mac), reference
            description = etree.tostring(E.filterbinding(*parts), encoding="unicode")
            self.binding = self.connection.nwfilterBindingCreateXML(description)

    def find_open(self, *targets):
        """Return those of the targets (address, port) that accept a connection from here."""
        return list_open(self.command_inside(), targets)

    def find_pingable(self, *addresses):
        """Return those of the addresses that answer a ping from here."""
        pings = [subprocess.Popen(self.command_inside(*PING, ip), stdout=subprocess.DEVNULL) for ip in addresses]
        return [ip for ip, ping in zip(addresses, pings, strict=True) if ping.wait(timeout=60) == 0]

    def unplug(self):
        for server in self.servers:
            server.kill()
            server.wait()
        if self.binding:
            self.binding.delete()
        firewall.delete_filters(self.connection, [self.mac])
        with contextlib.suppress(subprocess.CalledProcessError):
            run_command("ip", "netns", "delete", self.name)


PING = "ping", "-c", "3", "-i", "0.3", "-W", "2"


def list_open(prefix, targets):
    arguments = [f"{ip}/{port}" for ip, port in targets]
    command = [*prefix, sys.executable, "-I", "-S", "-c", CLIENT_SCRIPT, *arguments]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    return [target for target, argument in zip(targets, arguments, strict=True) if argument in lines]


def find_open_from_node(*targets):
    return list_open((), targets)


@pytest.fixture(scope="module")
def ports(hypervisor):
    connection = libvirt.open(hypervisor.uri)
    connection.nwfilterDefineXML(filters.build_guard())
    four, six = (gateway.split("/")[0] for gateway in (hypervisor.network.gateway4, hypervisor.network.gateway6))
    number = hypervisor.network.bridge.removeprefix("panel")
    ports = [Port(connection, f"fw{number}{n}", f"52:54:00:00:79:0{n}", f"{four}{n}", f"{six}{n}") for n in (1, 2)]
    for port in ports:
        port.plug_in(hypervisor.network.bridge)
        port.set_filter()
    server, client = ports
    targets = [(server.four, number) for number in (25, 7001, 7002)]
    wait_until(lambda: client.find_open(*targets) == targets, "the servers")
    yield server, client
    for port in ports:
        port.unplug()
    connection.close()


@pytest.fixture
def open_ports(ports):
    """The server's and the client's port, without rules."""
    for port in ports:
        port.set_filter()
    return ports


def test_nic_without_rules_is_open(open_ports):
    server, client = open_ports
    targets = [(server.four, 7001), (server.six, 7001)]
    assert client.find_open(*targets) == targets
    assert find_open_from_node(*targets) == targets
    assert client.find_pingable(server.four, server.six) == [server.four, server.six]


def test_incoming_is_dropped_without_rule_and_outgoing_passes(open_ports):
    server, client = open_ports
    server.set_filter(allowed=EGRESS_RULES)
    targets, replies = [[(ip, 7001) for ip in (port.four, port.six)] for port in (server, client)]
    assert client.find_open(*targets) == []
    assert client.find_pingable(server.four, server.six) == []
    assert find_open_from_node(*targets) == [], "nor from the node: the answer does not get out"
    assert server.find_open(*replies) == replies, "what it begins is answered"
    assert server.find_pingable(client.four, client.six) == [client.four, client.six]


def test_ports_networks_and_ip_versions_are_distinguished(open_ports):
    server, client = open_ports
    four1, four2, six1, six2 = targets = [(ip, port) for ip in (server.four, server.six) for port in (7001, 7002)]
    server.set_filter(allowed=(*EGRESS_RULES, FirewallRule("in", 4, "tcp", (7001, 7001))))
    assert client.find_open(*targets) == [four1]
    assert find_open_from_node(*targets) == [four1]
    server.set_filter(
        allowed=(
            *EGRESS_RULES,
            FirewallRule("in", 6, "tcp", (7001, 7002), f"{client.six}/128"),
            FirewallRule("in", 4, "icmp"),
        )
    )
    assert client.find_open(*targets) == [six1, six2]
    assert find_open_from_node(*targets) == []
    assert client.find_pingable(server.four, server.six) == [server.four]
    server.set_filter(
        allowed=(*EGRESS_RULES, FirewallRule("in", 4, "all", None, f"{client.four}/32"), FirewallRule("in", 6, "icmp"))
    )
    assert client.find_open(*targets) == [four1, four2]
    assert find_open_from_node(*targets) == []
    assert client.find_pingable(server.four, server.six) == [server.four, server.six]


def test_outgoing_is_dropped_without_rule(open_ports):
    server, client = open_ports
    targets = [(ip, port) for ip in (server.four, server.six) for port in (7001, 7002)]
    client.set_filter(allowed=(FirewallRule("out", 4, "tcp", (7002, 7002), f"{server.four}/32"),))
    assert client.find_open(*targets) == [(server.four, 7002)]
    assert server.find_open((client.four, 7002)) == []
    client.set_filter(allowed=())
    assert client.find_open(*targets) == []
    client.set_filter()
    assert client.find_open(*targets) == targets


def test_mail_switch_blocks_outgoing_smtp_only(open_ports):
    server, client = open_ports
    client.set_filter(mail=False)
    targets = [(server.four, 25), (server.six, 25), (server.four, 7001)]
    assert client.find_open(*targets) == [(server.four, 7001)]
    assert server.find_open((client.four, 25)) == [(client.four, 25)], "others still reach it"


def test_connection_that_is_no_longer_allowed_is_cut(open_ports):
    server, client = open_ports
    server.set_filter(allowed=(*EGRESS_RULES, FirewallRule("in", 4, "icmp")))
    command = client.command_inside("ping", "-i", "0.2", "-w", "60", server.four)
    ping = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
    try:
        assert b"bytes from" in b"".join(ping.stdout.readline() for _ in range(3))
        server.set_filter(allowed=EGRESS_RULES)
        while select.select([ping.stdout], [], [], QUIET_SECONDS)[0]:
            assert ping.stdout.readline(), "answers came to the end"
    finally:
        ping.kill()
        ping.wait()
        ping.stdout.close()
    assert client.find_pingable(server.four) == []


def test_routed_prefix_passes_and_other_addresses_do_not(open_ports):
    server, client = open_ports
    inside, outside = "fd99:7::9", "fd99:8::9"
    for port, ip in ((client, inside), (client, outside)):
        run_command("ip", "-n", port.name, "address", "add", f"{ip}/128", "dev", f"{port.name}g", "nodad")
        run_command("ip", "-n", server.name, "route", "add", f"{ip}/128", "dev", f"{server.name}g")
    client.set_filter(prefixes=("fd99:7::/64",))
    assert server.find_pingable(inside, outside) == [inside]
    client.set_filter()
    assert server.find_pingable(inside) == []
