"""A real hypervisor for the tests that boot machines: it is started for the run and gone after it."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from panel.config import ROOT
from worker.guests import tiny
from worker.nodes.libvirt import local


@dataclass(frozen=True)
class Hypervisor:
    uri: str
    directory: Path
    network: local.PublicNetwork


@pytest.fixture(scope="session")
def hypervisor(tmp_path_factory):
    assert not local.missing(), f"{' '.join(local.missing())} Install {' '.join(local.PACKAGES)}."
    directory = tmp_path_factory.mktemp("hypervisor")
    network = unused_network()
    yield Hypervisor(local.start(directory, network), directory, network)
    local.stop(directory)


@pytest.fixture(scope="session")
def hypervisor_uri(hypervisor):
    return hypervisor.uri


def unused_network():
    """A bridge and addresses that no other run on this machine has."""
    bridges = {path.name for path in Path("/sys/class/net").iterdir()}
    number = next(n for n in (os.getpid() % 100 + 100 + step for step in range(56)) if f"panelt{n}" not in bridges)
    return local.PublicNetwork(f"panelt{number}", f"10.88.{number}.1/24", f"fd88:0:0:{number}::1/64")


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
