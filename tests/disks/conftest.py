"""A machine that runs, and what its node has."""

import pytest

from tests.live_snapshots.conftest import machine  # noqa: F401  (fixture)
from worker.nodes.base import GiB


@pytest.fixture
def on_node(node, machine):
    """What the node has: the sizes of the disks by name in GiB, and the names of those that the running machine has."""
    import orjson

    def on_node():
        sizes = {
            disk.name: disk.size // GiB
            for disk in node.disks("default")
            if disk.name.startswith("h") and "seed" not in disk.name
        }
        (row,) = node.state.rows("SELECT live, definition FROM machines WHERE id = ?", machine.id)
        return sizes, [disk["name"] for disk in orjson.loads(row["live"] or row["definition"])["disks"]]

    return on_node
