"""A real hypervisor for the tests that boot machines: it is started for the run and gone after it."""

import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from panel.core.config import ROOT
from worker.images import tiny
from worker.nodes.libvirt import private_daemon

PROGRAMS = f"{ROOT / 'tests' / 'traffic_control'}:{private_daemon.PROGRAM_PATH}"
"""With these a daemon limits speeds also where its kernel lacks parts of traffic control."""

network_claims = []
"""Sockets that keep numbers of bridges for this run."""


@dataclass(frozen=True)
class LocalHypervisor:
    uri: str
    directory: Path
    network: private_daemon.PublicNetwork

    def start(self):
        """Starts its daemon, if that does not run."""
        return private_daemon.start(self.directory, self.network, PROGRAMS)


@pytest.fixture(scope="session")
def hypervisor(tmp_path_factory):
    assert not private_daemon.list_missing(), (
        f"{' '.join(private_daemon.list_missing())} Install {' '.join(private_daemon.PACKAGES)}."
    )
    directory = tmp_path_factory.mktemp("hypervisor")
    made = LocalHypervisor(private_daemon.connection_uri(directory), directory, claim_network())
    made.start()
    yield made
    private_daemon.stop(directory)


@pytest.fixture(scope="session")
def hypervisor_uri(hypervisor):
    return hypervisor.uri


def claim_network():
    """A bridge and addresses that are this run's own until its process ends: whoever holds the socket of that name has
    the number, also before there is a bridge."""
    bridges = {name for _, name in socket.if_nameindex()}
    for number in range(100, 256):
        bridge, claim = f"panelt{number}", socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0{bridge}")
        except OSError:
            claim.close()
            continue
        network_claims.append(claim)
        if bridge not in bridges:  # one that a killed run left
            return private_daemon.PublicNetwork(bridge, f"10.88.{number}.1/24", f"fd88:0:0:{number}::1/64")
    raise AssertionError("Every bridge for tests is in use.")


@pytest.fixture(scope="session")
def guest_cache():
    """Where Debian's packages are kept between runs: the same place as the product's own."""
    directory = ROOT / "var" / "cache"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def tiny_image(tmp_path_factory, guest_cache):
    """A bootable disk image, built as `panel image build tiny` does."""
    return tiny.build(tmp_path_factory.mktemp("image") / "tiny.qcow2", cache=guest_cache, log=lambda *_: None).path
