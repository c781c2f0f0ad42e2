"""The network that a sandbox gets with its identity."""

import json
import os
import subprocess
import sys

import pytest

from tests.sandbox_guest.identity_program import DOCUMENT, apply
from worker.sandbox_guest import network

NETWORK = {"address": "100.96.0.5/16", "gateway": "100.96.0.1", "nameservers": ["1.1.1.1", "9.9.9.9"]}


def test_name_servers_are_written(root):
    for _ in range(2):
        assert apply(root, {**DOCUMENT, "network": NETWORK}).returncode == 0
        assert (root / "etc/resolv.conf").read_text() == "nameserver 1.1.1.1\nnameserver 9.9.9.9\n"
    assert "network" not in json.loads((root / "run/sandbox/identity.json").read_text())


def test_sandbox_without_network_has_no_name_servers(root):
    assert apply(root, DOCUMENT).returncode == 0
    assert not (root / "etc/resolv.conf").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("address", "100.96.0.5"),
        ("address", "100.96.0.5/33"),
        ("address", "100.96.0/16"),
        ("address", "fd00::1/64"),
        ("address", None),
        ("gateway", ""),
        ("gateway", 5),
        ("nameservers", "1.1.1.1"),
        ("nameservers", ["1.1.1.1\nsearch example.com"]),
    ],
)
def test_wrong_network_is_refused(root, field, value):
    answer = apply(root, {**DOCUMENT, "network": {**NETWORK, field: value}})
    assert (answer.returncode, "network" in answer.stderr) == (1, True)
    assert not (root / "run").exists()
    assert not (root / "etc/resolv.conf").exists()


def test_network_is_parsed():
    assert network.parse_network(None) is None
    parsed = network.parse_network({**NETWORK, "nameservers": [f"9.9.9.{number}" for number in range(5)]})
    assert (parsed.address, parsed.mask) == (bytes([100, 96, 0, 5]), bytes([255, 255, 0, 0]))
    assert parsed.nameservers == ("9.9.9.0", "9.9.9.1", "9.9.9.2")


CONFIGURE_SCRIPT = """
import sys
from worker.sandbox_guest.network import configure_interface, parse_network
address, gateway = sys.argv[1:]
configure_interface(parse_network({"address": address, "gateway": gateway}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create network namespaces")
def test_interface_is_configured_repeatedly_and_changed():
    configure = f"{sys.executable} -c '{CONFIGURE_SCRIPT}'"
    script = f"""
        mount -t sysfs sysfs /sys
        {configure} 100.96.0.5/16 100.96.0.1
        ip link add eth0 type veth peer name peer
        for repetition in 1 2; do {configure} 100.96.0.5/16 100.96.0.1; done
        ip -4 -o address show eth0; ip route
        {configure} 10.50.0.9/24 10.50.0.1
        ip -4 -o address show eth0; ip route
    """
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-ec", script], capture_output=True, text=True, check=True
    )
    words = [line.split() for line in done.stdout.splitlines()]
    assert [line[3] for line in words if "inet" in line] == ["100.96.0.5/16", "10.50.0.9/24"]
    assert [line[2] for line in words if line[0] == "default"] == ["100.96.0.1", "10.50.0.1"]
    assert len([line for line in words if line[0] == "100.96.0.0/16"]) == 1
