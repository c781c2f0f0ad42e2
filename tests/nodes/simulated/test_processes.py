"""A simulated node that several processes share."""

import queue
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from tests.nodes.simulated.machine_status import get_status
from tests.nodes.simulated.other_process import OTHER_PROCESS_SCRIPT
from worker.nodes.base import Disk, GiB, Machine, Nic, NotOnNode, Power


def test_state_is_shared_by_processes(node, define_machine, run_in_other_process):
    machine = define_machine()
    assert run_in_other_process(f"node.start({machine.id!r}); print(len(node.machines()))") == "1"
    assert get_status(node, machine).power == Power.on
    run_in_other_process("node.create_disk(Disk('pool', 'theirs', 5))")
    assert Disk("pool", "theirs", 5) in node.disks("pool")


def test_watch_events_reports_changes_of_other_processes(node, define_machine, run_in_other_process):
    machine, received, stop = define_machine(), queue.SimpleQueue(), threading.Event()
    watcher = threading.Thread(target=node.watch_events, args=(lambda *event: received.put(event), stop.is_set))
    watcher.start()
    while received.empty():
        node.start(machine.id)
        node.guest_powers_off(machine.id)
    run_in_other_process(
        f"node.start({machine.id!r}); node.guest_powers_off({machine.id!r}); node.power_off({machine.id!r})"
    )
    run_in_other_process(f"node.external_delete({machine.id!r})")
    events = list(iter(lambda: received.get(timeout=10), (machine.id, None)))
    stop.set()
    watcher.join(timeout=10)
    assert events[-2:] == [(machine.id, Power.on), (machine.id, Power.off)]


def test_image_of_dead_uploader_is_incomplete(node, image, run_in_other_process):
    half = replace(image, name="half")
    run_in_other_process(f"""
import os
from worker.nodes.base import Image
node.put_image("pool", Image("half", Path({str(image.path)!r}), {image.size}), lambda *progress: os._exit(0))""")
    assert not node.has_image("pool", half)
    assert node.disks("pool") == [Disk("pool", "system", GiB)]
    with pytest.raises(NotOnNode):
        node.create_disk(Disk("pool", "disk", GiB), half)
    node.put_image("pool", half)
    assert node.has_image("pool", half)


def test_processes_can_start_concurrently(tmp_path, open_node):
    define = "for n in range(50): node.define(Machine(f'{sys.argv[2]}-{n}', f'{sys.argv[2]}-{n}', 1, 64, ()))"
    command = [sys.executable, "-c", OTHER_PROCESS_SCRIPT + define, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(number)]) for number in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert len(open_node().machines()) == 200


def test_list_contains_thousands_of_machines(node):
    for number in range(3000):
        node.define(Machine(str(number), f"machine-{number}", 1, 1, (), (Nic(f"mac-{number}", "default"),)))
        node.start(str(number))
    listed = node.machines()
    assert len(listed) == 3000
    assert {tuple(machine.received) for machine in listed} == {(f"mac-{number}",) for number in range(3000)}


def test_state_file_is_private_to_its_owner(node, tmp_path):
    [file] = (tmp_path / "simulated").glob("*.db")
    assert file.stat().st_mode & 0o077 == 0
