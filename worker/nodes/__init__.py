"""Nodes: one contract (`base`), two drivers. `connect` returns this process's driver object for a hypervisor."""

import os
import threading
from pathlib import Path

from panel.core.messages import message
from worker.nodes.base import NodeDriver, NodeSpec, Refused

DRIVERS = ("libvirt", "simulated")

nodes: dict[tuple[Path, str], NodeDriver] = {}
lock = threading.Lock()
inherited_nodes: list[dict] = []


def connect(spec: NodeSpec, data_dir: Path) -> NodeDriver:
    """Return the node's driver, the same object for all callers in this process. When its spec changed, the old one is
    closed."""
    key = data_dir, spec.id
    with lock:
        node = nodes.get(key)
        if node is None or node.spec != spec:
            new_node = load_driver(spec.driver)(spec, data_dir)
            if node is not None:
                node.close()
            node = nodes[key] = new_node
        return node


def load_driver(name: str) -> type[NodeDriver]:
    """Return the driver class. libvirt is imported only on demand, so a panel with simulated nodes does not need the
    package."""
    if name == "simulated":
        from worker.nodes.simulated import SimulatedNode

        return SimulatedNode
    if name == "libvirt":
        try:
            from worker.nodes.libvirt import LibvirtNode
        except ModuleNotFoundError as missing:
            if not (missing.name or "").startswith("libvirt"):
                raise
            detail = "Install the package libvirt-python beside the panel."
            raise Refused(message("The libvirt driver is not installed."), detail) from missing
        return LibvirtNode
    raise Refused(
        message("There is no driver {driver} for hypervisors.", driver=repr(name)),
        f"The drivers are {', '.join(DRIVERS)}.",
    )


def start_empty_after_fork() -> None:
    """Make a forked child connect again. The inherited connections belong to the parent, and even closing them would
    disturb it, so they are kept, unused."""
    global lock, nodes
    inherited_nodes.append(nodes)
    lock, nodes = threading.Lock(), {}


os.register_at_fork(after_in_child=start_empty_after_fork)
