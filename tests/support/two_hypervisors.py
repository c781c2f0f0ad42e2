"""Several hypervisors on one machine, between which machines can move.

Each has its own libvirtd with its own mount namespace (devices, state, settings, sockets) and identity. The NICs of
their guests join one bridge, which the first hypervisor creates, like hosts in one rack. The first hypervisor can limit
bandwidth; the others only when the kernel supports it.
"""

import contextlib

from lxml.builder import E
from lxml.etree import tostring

from tests.support.local_hypervisor import PROGRAMS, LocalHypervisor, claim_network
from worker.nodes.libvirt import private_daemon


@contextlib.contextmanager
def run_hypervisors(directory, count=2):
    """Run `count` hypervisors until the block ends."""
    network, started = claim_network(), []
    try:
        for number in range(1, count + 1):
            place = directory / f"host{number}"
            started.append(place)
            if number == 1:
                private_daemon.start(place, network, PROGRAMS)
            else:
                with contextlib.closing(private_daemon.launch_daemon(place)) as connection:
                    connection.networkDefineXML(bridge_network_xml(network.bridge)).create()
        yield [LocalHypervisor(private_daemon.make_connection_uri(place), place, network) for place in started]
    finally:
        for place in reversed(started):
            private_daemon.stop(place)


def bridge_network_xml(bridge):
    """Return the XML of a libvirt network `public` that uses an existing bridge."""
    return tostring(E.network(E.name("public"), E.forward(mode="bridge"), E.bridge(name=bridge))).decode()
