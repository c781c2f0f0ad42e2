"""How long a guest's own writes take during a full backup, against those of the idle guest.

The guest overwrites a file synchronously, 4 KiB in each 64 KiB, so that QEMU has to copy what every write replaces. The
backup has one thread and the limit of speed that the product has by default. Target: the 95th percentile is at most
three times that without a backup.
"""

import contextlib
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from unittest import mock

from panel.services.settings import DEFAULT_SETTINGS
from tests.bench.machines import SEED, is_answering, run_node
from worker.backups import backup
from worker.backups.keys import RepositoryKey
from worker.backups.repository import Repository
from worker.backups.targets import LocalTarget
from worker.nodes.base import Disk, GiB, Image, Machine

FILE_MIB, IDLE_SECONDS, ROUNDS = 256, 10, 3
QUICK_SIZES = {"FILE_MIB": 16, "IDLE_SECONDS": 1, "ROUNDS": 1}
WRITER = """
exec 3<>/root/data
while [ ! -e /run/stop ]; do
    start=$EPOCHREALTIME; echo "$block" >&3; end=$EPOCHREALTIME
    echo $start $end
    [ "$(dd bs=61440 count=1 <&3 2>/dev/null | wc -c)" = 61440 ] || exec 3<>/root/data
done
"""
PREPARE_COMMAND = "mount -o remount,sync /; dd if=/dev/urandom of=/root/data bs=1M count={mebibytes} 2>/dev/null"
START_COMMAND = "rm -f /run/stop; block=$(head -c 4095 /dev/zero | tr '\\0' x) sh /run/writer >/run/times 2>&1 &"
STOP_COMMAND = "touch /run/stop; sleep 1; cat /run/times"


def bench(report):
    with run_node() as node, tempfile.TemporaryDirectory() as folder:
        machine = start_machine(node)
        run = lambda script, stdin="": node.agent_run(machine.id, ["sh", "-c", script], stdin, deadline=300).output  # noqa: E731
        run(PREPARE_COMMAND.format(mebibytes=FILE_MIB))
        run("cat >/run/writer", WRITER)
        rounds = [measure_round(node, machine, run, Path(folder) / str(number)) for number in range(ROUNDS)]
    for number, (idle, busy) in enumerate(rounds):
        print(f"  round {number}: {describe(idle)} without, {describe(busy)} during a backup", flush=True)
    ratio = statistics.median(find_95th(busy) / find_95th(idle) for idle, busy in rounds)
    report("writes of a guest during a backup, 95th", ratio, 3)


def start_machine(node):
    disk, seed = Disk("bench", "disk", GiB), node.create_seed("bench", "seed.iso", SEED)
    node.create_disk(disk, Image("tiny.qcow2", Path(), 0))
    machine = Machine(str(uuid.uuid4()), "bench", 1, 256, (disk,), media={"seed": seed})
    node.define(machine)
    node.start(machine.id)
    while not is_answering(node, machine.id):
        time.sleep(0.1)
    return machine


def measure_round(node, machine, run, folder):
    """Return the seconds of each write without and during a backup."""
    with collect_times(run) as idle:
        time.sleep(IDLE_SECONDS)
    repository = Repository.create(LocalTarget(folder), RepositoryKey.generate())
    request = backup.BackupRequest(folder.name, machine.disks, machine.id, bytes_per_second=get_default_speed())
    with collect_times(run) as busy, mock.patch.object(backup, "THREADS", 1):
        start = time.monotonic()
        backup.backup_machine(node, repository, request)
        print(f"  backup: {time.monotonic() - start:.1f} s", flush=True)
    repository.close()
    return idle, busy


def get_default_speed():
    """Return the bytes per second of one backup as the product is installed."""
    bandwidth, tasks = (DEFAULT_SETTINGS[f"backup_{name}_per_hypervisor"] for name in ("bandwidth", "tasks"))
    return bandwidth * 1024**2 // tasks


@contextlib.contextmanager
def collect_times(run):
    """Let the guest write until the block ends, and collect the seconds of each write."""
    times = []
    run(START_COMMAND)
    yield times
    times += [float(end) - float(start) for start, end in map(str.split, run(STOP_COMMAND).splitlines())]


def find_95th(times):
    return statistics.quantiles(times, n=20)[-1]


def describe(times):
    return (
        f"{len(times)} writes, median {1000 * statistics.median(times):.1f} ms, 95th {1000 * find_95th(times):.1f} ms"
    )
