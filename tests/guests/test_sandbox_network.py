"""What a real micro VM reaches, in a namespace with an internet of a few servers."""

import contextlib
import json
import subprocess

import libvirt
import pytest
from e2b import Sandbox
from lxml import etree

from tests.support.public_servers import TCP_PORT, UPLINK_ADDRESS, run_internet
from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

PUBLIC, OTHER_PUBLIC, RESOLVER, CUSTOMER, OPERATOR, PRIVATE, METADATA = (
    *("8.8.8.8", "8.8.4.4", "1.1.1.1", "31.0.0.9", "32.0.0.9"),
    *("10.9.9.9", "169.254.169.254"),
)
GATEWAY, NEIGHBOR = "100.96.0.1", "100.96.0.3"
TARGETS = [PUBLIC, OTHER_PUBLIC, RESOLVER, CUSTOMER, OPERATOR, PRIVATE, METADATA, GATEWAY, NEIGHBOR, UPLINK_ADDRESS]
PROBE_SCRIPT = f"""
import json, select, socket, sys, time
sockets = {{}}
for address in sys.argv[1:]:
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex((address, {TCP_PORT}))
    sockets[connection] = address
nameserver = open("/etc/resolv.conf").readline().split()[1]
question = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
question.connect((nameserver, 53))
try:
    question.send(b"who?")
except OSError:
    pass
reached, deadline = [], time.monotonic() + 3
while sockets and time.monotonic() < deadline:
    for connection in select.select([], list(sockets), [], 0.2)[1]:
        address = sockets.pop(connection)
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            reached.append(address)
question.setblocking(False)
try:
    reached.append(question.recv(100).decode())
except OSError:
    pass
print(json.dumps(sorted(reached)))
"""
COMMAND_SECONDS = 600
"""Seconds for a command. The first one waits until the guest has booted, which takes long beside the other lanes."""

ANSWERED = "who?"
"""Stands for an answer of the name server."""
EVERYTHING_ALLOWED = sorted([PUBLIC, OTHER_PUBLIC, RESOLVER, ANSWERED])


@pytest.fixture(scope="module")
def internet():
    with run_internet(PUBLIC, OTHER_PUBLIC, RESOLVER, CUSTOMER, OPERATOR, PRIVATE, METADATA):
        yield


@pytest.fixture(scope="module")
def profile(lab, sandbox_options, internet):
    """The path of the node's profile, which allows internet access. A customer's subnet and a network of the operator's
    are public addresses."""
    subnet = {"name": "customers", "hypervisor_group_id": lab.location, "cidr": "31.0.0.0/24"}
    subnet_id = lab.call_admin("POST", "/subnets", subnet)["id"]
    (row,) = lab.call_admin("GET", "/microvm/profiles")
    path = f"/microvm/profile/{row['id']}"
    lab.call_admin("PATCH", path, {"allows_internet_access": True, "refused_networks": [OPERATOR]})
    yield path
    lab.call_admin("PATCH", path, {"allows_internet_access": False, "refused_networks": []})
    lab.call_admin("DELETE", f"/subnet/{subnet_id}")


@pytest.fixture(scope="module")
def sandboxes(profile, sandbox_options):
    """Two running sandboxes."""
    created = [Sandbox.create(timeout=900, **sandbox_options) for _ in range(2)]
    yield created
    for sandbox in created:
        sandbox.kill()


def probe(sandbox):
    """Return what the guest reaches, of all that there is."""
    sandbox.files.write("probe.py", PROBE_SCRIPT)
    return json.loads(sandbox.commands.run(f"python3 probe.py {' '.join(TARGETS)}", timeout=COMMAND_SECONDS).stdout)


def wait_until_reached(sandbox, expected):
    wait_until(lambda: probe(sandbox) == sorted(expected), f"the guest to reach only {expected}")


def test_sandbox_reaches_what_operator_and_customer_allow(lab, hypervisor, profile, sandboxes, sandbox_options):
    first, second = sandboxes
    addresses = second.commands.run("hostname -I 2>/dev/null || ip -4 -o addr show eth0", timeout=COMMAND_SECONDS)
    assert addresses.stdout.count(NEIGHBOR) == 1
    assert first.get_info().allow_internet_access is True
    assert probe(first) == EVERYTHING_ALLOWED
    assert count_isolated_ports(hypervisor) == 2

    assert probe(second) == EVERYTHING_ALLOWED
    first.update_network({"allow_internet_access": False, "allow_out": [PUBLIC, PRIVATE, CUSTOMER, GATEWAY]})
    wait_until_reached(first, [PUBLIC])
    first.update_network({"deny_out": ["8.8.0.0/16"], "allow_out": [OTHER_PUBLIC]})
    wait_until_reached(first, [OTHER_PUBLIC, RESOLVER, ANSWERED])
    first.update_network({})
    first.pause()
    first = Sandbox.connect(first.sandbox_id, timeout=900, **sandbox_options)
    wait_until_reached(first, EVERYTHING_ALLOWED)

    lab.call_admin("PATCH", profile, {"allows_internet_access": False})
    wait_until_reached(first, [])
    assert first.get_info().allow_internet_access is False


def count_isolated_ports(hypervisor):
    """Return how many NICs of running machines cannot send to each other."""
    with contextlib.closing(libvirt.open(hypervisor.uri)) as connection:
        running = connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING)
        definitions = [etree.fromstring(domain.XMLDesc()) for domain in running]
    taps = [target.get("dev") for root in definitions for target in root.iterfind("devices/interface/target")]
    ports = [subprocess.check_output(["bridge", "-d", "link", "show", "dev", tap], text=True) for tap in taps]
    return sum("isolated on" in port for port in ports)
