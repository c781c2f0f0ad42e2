"""Firewalls of cards by real connections. In place of guests there are network namespaces at the hypervisor's bridge:
they have whole network stacks, and libvirt filters their ports as it does guests'."""

import contextlib
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass, field

import libvirt
import pytest
from lxml import etree
from lxml.builder import E

from tests.processes.conftest import wait_until
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
CLIENT_SCRIPT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3).close()"


def run_command(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, timeout=60).returncode == 0


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

    def plug(self, bridge):
        inside, outside = f"{self.name}g", f"{self.name}h"
        run_command("ip", "netns", "add", self.name)
        run_command("ip", "link", "add", outside, "type", "veth", "peer", "name", inside)
        run_command("ip", "link", "set", inside, "netns", self.name)
        run_command("ip", "link", "set", outside, "master", bridge, "up")
        run_command("ip", "-n", self.name, "link", "set", inside, "address", self.mac, "up")
        run_command("ip", "-n", self.name, "address", "add", f"{self.four}/24", "dev", inside)
        run_command("ip", "-n", self.name, "address", "add", f"{self.six}/64", "dev", inside, "nodad")
        for port in (25, 7001, 7002):
            self.servers.append(subprocess.Popen(self.inside(sys.executable, "-c", SERVER_SCRIPT, str(port))))

    def inside(self, *words):
        return "ip", "netns", "exec", self.name, *words

    def filtered(self, **facts):
        firewall.define_filters(self.connection, [Nic(self.mac, "public", (self.four, self.six), **facts)])
        if self.binding is None:
            owner = E.owner(E.name(self.name), E.uuid(str(uuid.uuid4())))
            reference = E.filterref(filter=firewall.filter_name(self.mac))
            parts = owner, E.portdev(name=f"{self.name}h"), E.mac(address=self.mac), reference
            described = etree.tostring(E.filterbinding(*parts), encoding="unicode")
            self.binding = self.connection.nwfilterBindingCreateXML(described)

    def reaches(self, ip, port):
        return run_command(*self.inside(sys.executable, "-c", CLIENT_SCRIPT, ip, str(port)), check=False)

    def pings(self, ip):
        return run_command(*self.inside("ping", "-c", "3", "-i", "0.3", "-W", "2", ip), check=False)

    def unplug(self):
        for server in self.servers:
            server.kill()
            server.wait()
        if self.binding:
            self.binding.delete()
        firewall.delete_filters(self.connection, [self.mac])
        with contextlib.suppress(subprocess.CalledProcessError):
            run_command("ip", "netns", "delete", self.name)


@pytest.fixture(scope="module")
def ports(hypervisor):
    connection = libvirt.open(hypervisor.uri)
    connection.nwfilterDefineXML(filters.build_guard())
    four, six = (gateway.split("/")[0] for gateway in (hypervisor.network.gateway4, hypervisor.network.gateway6))
    number = hypervisor.network.bridge.removeprefix("panel")
    made = [Port(connection, f"fw{number}{n}", f"52:54:00:00:79:0{n}", f"{four}{n}", f"{six}{n}") for n in (1, 2)]
    for port in made:
        port.plug(hypervisor.network.bridge)
        port.filtered()
    server, client = made
    wait_until(lambda: all(client.reaches(server.four, n) for n in (25, 7001, 7002)), "the servers")
    yield server, client
    for port in made:
        port.unplug()
    connection.close()


@pytest.fixture
def pair(ports):
    for port in ports:
        port.filtered()
    return ports


def from_the_node(ip, port):
    return run_command(sys.executable, "-c", CLIENT_SCRIPT, ip, str(port), check=False)


def test_a_card_without_rules_is_open(pair):
    server, client = pair
    for ip in (server.four, server.six):
        assert client.reaches(ip, 7001)
        assert client.pings(ip)
        assert from_the_node(ip, 7001)


def test_nothing_comes_in_that_no_rule_allows_and_all_goes_out(pair):
    server, client = pair
    server.filtered(allowed=EGRESS_RULES)
    for there, back in ((server.four, client.four), (server.six, client.six)):
        assert not client.reaches(there, 7001)
        assert not client.pings(there)
        assert not from_the_node(there, 7001), "nor from the node: the answer does not get out"
        assert server.reaches(back, 7001), "what it begins is answered"
        assert server.pings(back)


def test_ports_networks_and_ip_versions_are_distinguished(pair):
    server, client = pair
    one = (7001, 7001)
    server.filtered(allowed=(*EGRESS_RULES, FirewallRule("in", 4, "tcp", one)))
    assert client.reaches(server.four, 7001)
    assert from_the_node(server.four, 7001)
    assert not client.reaches(server.four, 7002)
    assert not client.reaches(server.six, 7001)
    server.filtered(
        allowed=(
            *EGRESS_RULES,
            FirewallRule("in", 6, "tcp", (7001, 7002), f"{client.six}/128"),
            FirewallRule("in", 4, "icmp"),
        )
    )
    assert client.reaches(server.six, 7001)
    assert client.reaches(server.six, 7002)
    assert not from_the_node(server.six, 7001)
    assert not client.reaches(server.four, 7001)
    assert (client.pings(server.four), client.pings(server.six)) == (True, False)
    server.filtered(
        allowed=(*EGRESS_RULES, FirewallRule("in", 4, "all", None, f"{client.four}/32"), FirewallRule("in", 6, "icmp"))
    )
    assert client.reaches(server.four, 7002)
    assert not from_the_node(server.four, 7002)
    assert (client.pings(server.four), client.pings(server.six)) == (True, True)


def test_with_rules_for_going_out_the_rest_stays_in(pair):
    server, client = pair
    client.filtered(allowed=(FirewallRule("out", 4, "tcp", (7002, 7002), f"{server.four}/32"),))
    assert client.reaches(server.four, 7002)
    assert not client.reaches(server.four, 7001)
    assert not client.reaches(server.six, 7002)
    assert not server.reaches(client.four, 7002)
    client.filtered(allowed=())
    assert not client.reaches(server.four, 7002)
    client.filtered()
    assert client.reaches(server.six, 7002)


def test_mail_alone_is_shut_by_its_switch(pair):
    server, client = pair
    client.filtered(mail=False)
    assert not client.reaches(server.four, 25)
    assert not client.reaches(server.six, 25)
    assert client.reaches(server.four, 7001)
    assert server.reaches(client.four, 25), "others still reach it"


def test_a_connection_that_is_allowed_no_more_is_cut(pair):
    server, client = pair
    server.filtered(allowed=(*EGRESS_RULES, FirewallRule("in", 4, "icmp")))
    often = client.inside("ping", "-i", "0.5", "-c", "40", "-W", "1", server.four)
    talk = subprocess.Popen(often, stdout=subprocess.PIPE, text=True)
    assert "bytes from" in "".join(talk.stdout.readline() for _ in range(3))
    server.filtered(allowed=EGRESS_RULES)
    answered = [int(number) for number in re.findall(r"icmp_seq=(\d+)", talk.communicate(timeout=60)[0])]
    assert max(answered, default=0) < 35


def test_a_prefix_is_the_guests_and_what_is_next_to_it_is_not(pair):
    server, client = pair
    inside, beside = "fd99:7::9", "fd99:8::9"
    for port, ip in ((client, inside), (client, beside)):
        run_command("ip", "-n", port.name, "address", "add", f"{ip}/128", "dev", f"{port.name}g", "nodad")
        run_command("ip", "-n", server.name, "route", "add", f"{ip}/128", "dev", f"{server.name}g")
    client.filtered(prefixes=("fd99:7::/64",))
    assert server.pings(inside)
    assert not server.pings(beside)
    client.filtered()
    assert not server.pings(inside)
