"""A running machine, and the disks on its node."""

import pytest

from tests.support.running_machine import machine  # noqa: F401  (fixtures)
from worker.nodes.base import GiB


@pytest.fixture
def disks_on_node(node, machine):
    """Return a function that returns the sizes in GiB by disk name, and the names of the machine's attached disks."""
    import orjson

    def read():
        sizes = {
            disk.name: disk.size // GiB
            for disk in node.disks("default")
            if disk.name.startswith("h") and "seed" not in disk.name
        }
        (row,) = node.state.rows("SELECT live, definition FROM machines WHERE id = ?", machine.id)
        return sizes, [disk["name"] for disk in orjson.loads(row["live"] or row["definition"])["disks"]]

    return read
