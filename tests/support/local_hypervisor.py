"""A real hypervisor for tests that boot machines, running during the test run."""

import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from panel.core.config import ROOT
from worker.images import packages, tiny
from worker.images.tiny import boot
from worker.nodes.libvirt import private_daemon

PROGRAMS = f"{ROOT / 'tests' / 'traffic_control'}:{private_daemon.PROGRAM_PATH}"
"""A search path with programs that emulate traffic control, for kernels that lack parts of it."""

network_claims = []
"""Sockets that reserve bridge names for this process."""


@dataclass(frozen=True)
class LocalHypervisor:
    uri: str
    directory: Path
    network: private_daemon.PublicNetwork

    def start(self):
        """Start the daemon, unless it runs."""
        return private_daemon.start(self.directory, self.network, PROGRAMS)


@pytest.fixture(scope="session")
def hypervisor(tmp_path_factory):
    assert not private_daemon.list_missing(), (
        f"{' '.join(private_daemon.list_missing())} Install {' '.join(private_daemon.REQUIRED_PACKAGES)}."
    )
    directory = tmp_path_factory.mktemp("hypervisor")
    local_hypervisor = LocalHypervisor(private_daemon.make_connection_uri(directory), directory, claim_network())
    local_hypervisor.start()
    yield local_hypervisor
    private_daemon.stop(directory)


@pytest.fixture(scope="session")
def hypervisor_uri(hypervisor):
    return hypervisor.uri


def claim_network():
    """Return a bridge name and addresses that no other test run uses. An abstract socket of that name reserves them
    until this process ends."""
    bridges = {name for _, name in socket.if_nameindex()}
    for number in range(100, 256):
        bridge, claim = f"panelt{number}", socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0{bridge}")
        except OSError:
            claim.close()
            continue
        network_claims.append(claim)
        if bridge not in bridges:  # a bridge without a socket is left from a killed run
            return private_daemon.PublicNetwork(bridge, f"10.88.{number}.1/24", f"fd88:0:0:{number}::1/64")
    raise AssertionError("Every bridge for tests is in use.")


@pytest.fixture(scope="session")
def guest_cache():
    """The folder that caches Debian packages between runs; the product uses the same."""
    directory = ROOT / "var" / "cache"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def busybox(guest_cache):
    """The tiny guest's busybox."""
    return (
        packages.unpack(tiny.IMAGE_PACKAGES, cache=guest_cache, prepare=boot.index_modules, log=lambda *_: None)
        / "bin/busybox"
    )


@pytest.fixture(scope="session")
def tiny_image(tmp_path_factory, guest_cache):
    """The file of a bootable disk image, built as by `panel image build tiny`."""
    return tiny.build(tmp_path_factory.mktemp("image") / "tiny.qcow2", cache=guest_cache, log=lambda *_: None).path
