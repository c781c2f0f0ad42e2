"""Machine types compared: boot time, memory on the host, disk throughput in the guest.

    python -m tests.bench.machines [ROUNDS]

`before` is the machine definition of earlier releases (i440FX, IDE drives, libvirt's defaults), `now` the current one.
"""

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from unittest import mock

from lxml.builder import E

from panel.core.config import ROOT
from tests.support.local_hypervisor import claim_network
from worker.images import tiny
from worker.nodes.base import AgentUnavailable, Disk, GiB, Image, Machine, Nic, NodeSpec, Seed
from worker.nodes.libvirt import LibvirtNode, chipset, private_daemon, xml

SEED = Seed('{"instance-id": "one", "local-hostname": "bench"}', "#cloud-config\n{}", '{"version": 2}')
WRITE_COMMAND = "dd if=/dev/shm/data of=/root/data bs=1M conv=fsync 2>/dev/null"
READ_COMMAND = "echo 3 >/proc/sys/vm/drop_caches; dd if=/root/data of=/dev/null bs=1M 2>/dev/null"
TEST_FILE_MEGABYTES = 64

DEFAULT_DISK_DRIVER = {"name": "qemu", "type": "qcow2", "discard": "unmap"}
VARIANTS = {
    "before": ("pc", DEFAULT_DISK_DRIVER, lambda: E.clock(offset="utc")),
    "now": ("", xml.DISK_DRIVER, xml.build_clock),
    "now, page cache": ("", xml.DISK_DRIVER | {"cache": "writeback", "io": "threads"}, xml.build_clock),
}


@contextlib.contextmanager
def run_node():
    with tempfile.TemporaryDirectory(prefix="bench", dir="/tmp") as place:
        directory = Path(place) / "h"
        network = claim_network()
        node = LibvirtNode(NodeSpec("bench", "bench", "libvirt", private_daemon.start(directory, network)), Path(place))
        try:
            node.prepare_pool("bench", str(directory / "disks"))
            image = tiny.build(Path(place) / "tiny.qcow2", cache=(ROOT / "var/cache").resolve(), log=lambda *_: None)
            node.put_image("bench", Image("tiny.qcow2", image.path, image.size))
            node.directory, node.network = directory, network
            yield node
        finally:
            node.close()
            private_daemon.stop(directory)


def measure(node, kind, driver, clock):
    number = uuid.uuid4()
    disk, seed = Disk("bench", f"{number}", GiB), node.create_seed("bench", f"{number}.iso", SEED)
    node.create_disk(disk, Image("tiny.qcow2", Path(), 0))
    gateway = node.network.gateway4.split("/")[0]
    nic = Nic("52:54:00:00:99:01", "public", (f"{gateway}9",))
    machine = Machine(str(number), "bench", 1, 256, (disk,), (nic,), {"seed": seed})
    find_machine_type = (lambda machine, existing="": kind) if kind else chipset.choose_machine_type
    with (
        mock.patch.object(chipset, "choose_machine_type", find_machine_type),
        mock.patch.object(xml, "DISK_DRIVER", driver),
        mock.patch.object(xml, "build_clock", clock),
    ):
        node.define(machine)
    node.start(machine.id)
    start = time.monotonic()
    while not is_answering(node, machine.id):
        time.sleep(0.05)
    results = {"boot s": time.monotonic() - start}
    [pid] = (node.directory / "run" / "qemu").glob("bench.pid")
    status = Path(f"/proc/{int(pid.read_text())}/status").read_text()
    results["RSS MiB"] = int(status.partition("VmRSS:")[2].split()[0]) / 1024
    run = lambda script: node.agent_run(machine.id, ["sh", "-c", script], deadline=120)  # noqa: E731
    run(f"dd if=/dev/urandom of=/dev/shm/data bs=1M count={TEST_FILE_MEGABYTES} 2>/dev/null")
    for name, script in (("write MiB/s", WRITE_COMMAND), ("read MiB/s", READ_COMMAND)):
        start = time.monotonic()
        assert run(script).exit_code == 0
        results[name] = TEST_FILE_MEGABYTES / (time.monotonic() - start)
    node.delete(machine.id)
    for name in (disk.name, seed.name):
        node.delete_disk("bench", name)
    return results


def is_answering(node, machine_id):
    with contextlib.suppress(AgentUnavailable):
        node.agent_ping(machine_id)
        return True
    return False


def main(rounds=2):
    results = {name: [] for name in VARIANTS}
    with run_node() as node:
        for _ in range(rounds):
            for name, variant in VARIANTS.items():
                results[name].append(measure(node, *variant))
    load = subprocess.run(["uptime"], capture_output=True, text=True).stdout.rpartition("average")[2]
    print(f"{rounds} rounds, load{load.strip()}")
    for name, rows in results.items():
        print(f"{name:18}", "  ".join(f"{key} {statistics.median(row[key] for row in rows):7.1f}" for key in rows[0]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
