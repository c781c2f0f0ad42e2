"""Volume plans with billing enabled, and a running machine."""

import orjson
import pytest

from tests.support.backups import destination, folder, inline_workers  # noqa: F401  (fixtures)
from tests.support.running_machine import machine  # noqa: F401  (fixtures)
from tests.support.volumes import billing_enabled, call_storage_api, plans, volume, volume_body  # noqa: F401  (fixtures)
from tests.support.worker_faults import fault_at, kill_worker_at  # noqa: F401  (fixtures)
from worker.nodes.base import GiB


@pytest.fixture
def volumes_on_node(node):
    """Return a function that returns the sizes in GiB by volume name and, for a machine, the names of its volumes."""

    def read(machine=None):
        sizes = {disk.name: disk.size // GiB for disk in node.disks("default") if disk.name.startswith(("v", "0"))}
        if machine is None:
            return sizes
        (row,) = node.state.rows("SELECT live, definition FROM machines WHERE id = ?", machine.id)
        disks = [disk["name"] for disk in orjson.loads(row["live"] or row["definition"])["disks"]]
        return sizes, [name for name in disks if name.startswith("v")]

    return read


@pytest.fixture
def attached_volume(call_storage_api, volume, run_tasks, machine):
    call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    run_tasks()
    return volume
