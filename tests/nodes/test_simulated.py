"""What is special about the simulated node: it is thousands strong, shared by processes, and goes wrong on command."""

import queue
import struct
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from panel import clock
from worker.nodes.base import (
    AgentSilent,
    Disk,
    Full,
    GiB,
    Image,
    Machine,
    Missing,
    Nic,
    NodeSpec,
    NoTicket,
    Power,
    Refused,
    Seed,
    Unreachable,
)
from worker.nodes.circuit import TOLERATED
from worker.nodes.simulated import SimulatedNode

OTHER_PROCESS = """
import sys
from pathlib import Path
from worker.nodes.base import AgentSilent, Disk, Machine, NodeSpec
from worker.nodes.simulated import SimulatedNode

node = SimulatedNode(NodeSpec("node", "node", "simulated", "simulated://"), Path(sys.argv[1]))
"""


@pytest.fixture
def reach(tmp_path):
    """Opens the node, as any process would, with the options of its address."""

    def reach(options="deadline=0.01&storage_gb=100&memory_gb=4"):
        return SimulatedNode(NodeSpec("node", "node", "simulated", f"simulated://?{options}"), tmp_path)

    return reach


@pytest.fixture
def node(reach):
    node = reach()
    node.prepare_pool("pool", "/pool")
    return node


@pytest.fixture
def elsewhere(tmp_path):
    """Runs a line in another process that has the node open; gives what it printed."""

    def run(line):
        command = [sys.executable, "-c", OTHER_PROCESS + line, str(tmp_path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    return run


@pytest.fixture
def image(tmp_path, node):
    file = tmp_path / "image"
    file.write_bytes(b"QFI\xfb" + bytes(20) + struct.pack(">Q", GiB))
    image = Image("system", file, file.stat().st_size)
    node.put_image("pool", image)
    return image


@pytest.fixture
def new(node, image):
    """Defines a machine that has a guest; its seed is what the test says."""

    def new(name="machine", **facts):
        disk = Disk("pool", f"{name}-disk", GiB)
        node.create_disk(disk, image)
        nic = Nic(f"52:54:00:{name.encode()[:3].hex(':')}", "default", ("10.0.0.2", "fd00::2"))
        facts = {"cpu_cores": 2, "memory_mb": 1024, "disks": (disk,), "nics": (nic,), **facts}
        machine = Machine(str(uuid.uuid5(uuid.NAMESPACE_OID, name)), name, **facts)
        node.define(machine)
        return machine

    return new


@pytest.fixture
def later(monkeypatch):
    """Lets time pass without waiting for it."""
    passed = [clock.now()]
    monkeypatch.setattr(clock, "now", lambda: passed[-1])

    def later(seconds):
        passed.append(passed[-1] + timedelta(seconds=seconds))

    return later


def seen(node, machine):
    return next(seen for seen in node.machines() if seen.id == machine.id)


def free(node):
    return node.capabilities().pools[0].free


# --- shared by processes


def test_what_one_process_leaves_behind_another_finds(node, new, elsewhere):
    machine = new()
    assert elsewhere(f"node.start({machine.id!r}); print(len(node.machines()))") == "1"
    assert seen(node, machine).power == Power.on
    elsewhere("node.create_disk(Disk('pool', 'theirs', 5))")
    assert Disk("pool", "theirs", 5) in node.disks("pool")


def test_a_watcher_hears_of_other_processes(node, new, elsewhere):
    machine, heard, stop = new(), queue.SimpleQueue(), threading.Event()
    watcher = threading.Thread(target=node.watch, args=(lambda *event: heard.put(event), stop.is_set))
    watcher.start()
    while heard.empty():
        node.start(machine.id)
        node.guest_powers_off(machine.id)
    elsewhere(f"node.start({machine.id!r}); node.guest_powers_off({machine.id!r}); node.power_off({machine.id!r})")
    elsewhere(f"node.lose({machine.id!r})")
    events = list(iter(lambda: heard.get(timeout=10), (machine.id, None)))
    stop.set()
    watcher.join(timeout=10)
    assert events[-2:] == [(machine.id, Power.on), (machine.id, Power.off)]


def test_an_image_whose_sender_died_does_not_count(node, image, elsewhere):
    half = replace(image, name="half")
    elsewhere(f"""
import os
from worker.nodes.base import Image
node.put_image("pool", Image("half", Path({str(image.path)!r}), {image.size}), lambda *progress: os._exit(0))""")
    assert not node.has_image("pool", half)
    assert node.disks("pool") == [Disk("pool", "system", GiB)]
    with pytest.raises(Missing):
        node.create_disk(Disk("pool", "disk", GiB), half)
    node.put_image("pool", half)
    assert node.has_image("pool", half)


def test_many_processes_may_begin_at_once(tmp_path, reach):
    define = "for n in range(50): node.define(Machine(f'{sys.argv[2]}-{n}', f'{sys.argv[2]}-{n}', 1, 64, ()))"
    command = [sys.executable, "-c", OTHER_PROCESS + define, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(number)]) for number in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert len(reach().machines()) == 200


def test_thousands_of_machines_are_one_list(node):
    for number in range(3000):
        node.define(Machine(str(number), f"machine-{number}", 1, 1, (), (Nic(f"mac-{number}", "default"),)))
        node.start(str(number))
    listed = node.machines()
    assert len(listed) == 3000
    assert {tuple(machine.received) for machine in listed} == {(f"mac-{number}",) for number in range(3000)}


def test_only_its_owner_may_read_the_file_because_seeds_hold_passwords(node, tmp_path):
    [file] = (tmp_path / "simulated").glob("*.db")
    assert file.stat().st_mode & 0o077 == 0


# --- room


def test_free_space_is_what_disks_images_and_seeds_leave(node, image):
    empty = free(node)
    disk = Disk("pool", "disk", 10 * GiB)
    node.create_disk(disk, image)
    seed = node.write_seed("pool", "seed", Seed("{}", "#cloud-config\n{}", "{}"))
    assert free(node) == empty - disk.size - seed.size
    node.grow_disk(replace(disk, size=11 * GiB))
    assert free(node) == empty - 11 * GiB - seed.size
    node.create_disk(disk)
    node.delete_disk("pool", seed.name)
    assert free(node) == empty - disk.size
    node.delete_disk("pool", disk.name)
    node.delete_image("pool", image.name)
    assert free(node) == empty + image.size == 100 * GiB


def test_a_full_node_takes_nothing_more(node, image):
    disk = Disk("pool", "disk", free(node))
    node.create_disk(disk)
    assert free(node) == 0
    for call in (
        lambda: node.create_disk(Disk("pool", "another", 1)),
        lambda: node.grow_disk(replace(disk, size=disk.size + 1)),
        lambda: node.put_image("pool", replace(image, name="another")),
        lambda: node.write_seed("pool", "another", Seed("{}", "#cloud-config\n{}", "{}")),
    ):
        with pytest.raises(Full):
            call()
    assert {disk.name for disk in node.disks("pool")} == {"disk", "system"}
    node.create_disk(replace(disk, size=disk.size - 5))
    assert free(node) == 5


def test_machines_share_the_memory(node, new):
    large, small = new("large", memory_mb=3500), new("small", memory_mb=597)
    node.start(large.id)
    with pytest.raises(Full):
        node.start(small.id)
    assert seen(node, small).power == Power.off
    node.power_off(large.id)
    node.start(small.id)


def test_a_child_does_not_outlive_its_image(node, new, image):
    machine = new()
    node.delete_disk("pool", image.name)  # as somebody on the node would: `delete_image` refuses
    with pytest.raises(Missing):
        node.start(machine.id)


def test_an_image_whose_file_is_gone_is_not_put(node, tmp_path):
    image = Image("gone", tmp_path / "gone", 5)
    with pytest.raises(Missing):
        node.put_image("pool", image)
    assert not node.has_image("pool", image)


# --- guests, and what happens without the panel


def test_a_guest_answers_when_it_has_booted(reach, new, later):
    node, machine = reach("boot_seconds=10"), new()
    node.start(machine.id)
    later(9)
    with pytest.raises(AgentSilent):
        node.agent_ping(machine.id)
    node.shutdown(machine.id)
    assert seen(node, machine).power == Power.on
    node.suspend(machine.id)
    later(60)
    node.resume(machine.id)
    with pytest.raises(AgentSilent):
        node.agent_ping(machine.id)
    later(1)
    node.agent_ping(machine.id)
    node.guest_restarts(machine.id)
    with pytest.raises(AgentSilent):
        node.agent_ping(machine.id)
    later(10)
    node.shutdown(machine.id)
    assert seen(node, machine).power == Power.off


def test_no_guest_runs_from_a_blank_disk(node, new):
    machine = new()
    node.create_disk(machine.disks[0])
    node.start(machine.id)
    with pytest.raises(AgentSilent):
        node.agent_ping(machine.id)
    node.shutdown(machine.id)
    assert seen(node, machine).power == Power.on


def test_a_guest_may_ignore_what_it_is_asked(node, new):
    machine = new()
    node.start(machine.id)
    node.set_guest(machine.id, heeds_shutdown=False, agent=False)
    node.shutdown(machine.id)
    assert seen(node, machine).power == Power.on
    with pytest.raises(AgentSilent):
        node.agent_ping(machine.id)
    node.set_guest(machine.id)
    node.agent_ping(machine.id)
    node.shutdown(machine.id)
    assert seen(node, machine).power == Power.off


def test_things_happen_behind_the_panels_back(node, new):
    machine = new()
    node.owner_starts(machine.id)
    assert seen(node, machine).power == Power.on
    node.guest_powers_off(machine.id)
    assert seen(node, machine).power == Power.off
    node.start(machine.id)
    node.node_restarts()
    assert seen(node, machine).power == Power.off
    node.start(machine.id)
    node.lose(machine.id)
    assert node.machines() == []
    assert machine.disks[0] in node.disks("pool")


def test_a_seed_can_be_read_back(node, new):
    seed = Seed('{"instance-id": "ü"}', '#cloud-config\n{"users": []}', '{"version": 2}')
    machine = new(media={"seed": node.write_seed("pool", "seed", seed)})
    assert node.seed_of(machine.id) == seed
    assert node.seed_of(new("another").id) is None


def test_counters_grow_while_a_machine_is_on(node, new, later):
    machine, busy = new(), []
    node.start(machine.id)
    for _ in range(3):
        later(60)
        busy.append(seen(node, machine))
    assert busy[0].cpu_seconds < busy[1].cpu_seconds < busy[2].cpu_seconds
    mac = machine.nics[0].mac
    assert busy[0].received[mac] < busy[1].received[mac]
    assert busy[0].sent[mac] < busy[1].sent[mac]
    node.suspend(machine.id)
    before = seen(node, machine)
    later(60)
    assert seen(node, machine) == before
    assert before.cpu_seconds == busy[2].cpu_seconds
    node.power_off(machine.id)
    node.start(machine.id)
    assert seen(node, machine).cpu_seconds == 0


def test_a_network_card_keeps_its_speed_limit(node, new, later):
    nic = Nic("52:54:00:00:00:01", "default", inbound_mbps=1, outbound_mbps=2)
    machine = new(nics=(nic,))
    node.start(machine.id)
    before = seen(node, machine)
    for _ in range(20):
        later(30)
        now = seen(node, machine)
        assert 0 < now.received[nic.mac] - before.received[nic.mac] <= 30 * 125_000
        assert 0 < now.sent[nic.mac] - before.sent[nic.mac] <= 30 * 250_000
        before = now


def test_the_guest_agent_reports_the_addresses_of_its_cards(node, new):
    machine = new()
    node.start(machine.id)
    assert node.agent_addresses(machine.id) == {machine.nics[0].mac: ["10.0.0.2", "fd00::2"]}


# --- faults


@pytest.mark.parametrize(("kind", "error"), [("refuse", Refused), ("silent", Unreachable), ("full", Full)])
def test_a_fault_is_met_by_the_next_call_of_another_process(node, new, elsewhere, kind, error):
    machine = new()
    elsewhere(f"node.fault('start', {kind!r}, count=1)")
    with pytest.raises(error):
        node.start(machine.id)
    assert seen(node, machine).power == Power.off
    node.start(machine.id)
    assert seen(node, machine).power == Power.on


def test_a_lost_answer_is_work_that_was_done(node, new):
    machine = new()
    node.fault("start", "lost-answer")
    with pytest.raises(Unreachable):
        node.start(machine.id)
    assert seen(node, machine).power == Power.on
    node.fault("create_disk", "lost-answer")
    with pytest.raises(Unreachable):
        node.create_disk(Disk("pool", "made", 5))
    assert Disk("pool", "made", 5) in node.disks("pool")


def test_a_slow_node_takes_its_time_and_works(node, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    node.fault("ping", "slow", seconds=7)
    node.ping()
    node.ping()
    node.machines()
    assert slept == [7, 7]


def test_a_silent_node_costs_its_deadline(reach, monkeypatch):
    slept, node = [], reach("deadline=3")
    monkeypatch.setattr(time, "sleep", slept.append)
    node.fault("*", "silent", count=2)
    for call in (node.ping, node.machines):
        with pytest.raises(Unreachable):
            call()
    assert slept == [3, 3]
    assert node.machines() == []


def test_a_node_that_is_silent_again_and_again_is_asked_no_more(reach, monkeypatch):
    slept, node = [], reach("deadline=3")
    monkeypatch.setattr(time, "sleep", slept.append)
    node.fault("*", "silent")
    for _ in range(10):
        with pytest.raises(Unreachable):
            node.machines()
    assert slept == [3] * TOLERATED
    node.clear()
    with pytest.raises(Unreachable):
        node.machines()
    node.ping()
    assert node.machines() == []


def test_faults_last_until_they_are_used_up_or_cleared(node):
    node.fault("*", "refuse", count=3)
    node.fault("machines", "slow", seconds=0)
    assert [(fault.operation, fault.kind, fault.remaining) for fault in node.faults()] == [
        ("*", "refuse", 3),
        ("machines", "slow", None),
    ]
    for _ in range(3):
        with pytest.raises(Refused):
            node.machines()
    assert [fault.operation for fault in node.faults()] == ["machines"]
    node.machines()
    node.fault("*", "refuse")
    node.clear()
    assert node.faults() == []
    node.machines()


def test_a_counted_fault_is_met_exactly_so_often(node):
    node.fault("machines", "refuse", count=5)

    def refused(_):
        try:
            node.machines()
        except Refused:
            return True
        return False

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(refused, range(40))) == 5


def test_a_call_meets_only_what_is_meant_for_it(node, image):
    node.fault("has_image", "refuse")
    node.fault("machines", "refuse")
    node.put_image("pool", replace(image, name="another"))
    node.create_disk(Disk("pool", "disk", GiB), image)
    node.fault("*", "lost-answer", count=1)
    with pytest.raises(Unreachable):
        node.put_image("pool", replace(image, name="third"))
    node.create_disk(Disk("pool", "disk", GiB), image)


def test_a_fault_that_means_nothing_is_not_taken(node):
    for operation, kind in (("strat", "refuse"), ("start", "explode"), ("ping", "full"), ("close", "refuse")):
        with pytest.raises(ValueError, match=r"There are|These do"):
            node.fault(operation, kind)
    with pytest.raises(ValueError, match="at least once"):
        node.fault("start", "refuse", count=0)
    assert node.faults() == []


def test_only_a_screen_of_a_cluster_lacks_a_ticket(node, tmp_path):
    assert not node.capabilities().screen_tickets
    with pytest.raises(ValueError, match="needs a ticket"):
        node.fault("console", "no-ticket")
    member = SimulatedNode(NodeSpec("member", "member", "simulated", "simulated://?tickets=1"), tmp_path)
    assert member.capabilities().screen_tickets
    with pytest.raises(ValueError, match="needs a ticket"):
        member.fault("start", "no-ticket")
    member.fault("console", "no-ticket", count=1)
    with pytest.raises(NoTicket):
        member.console("m", "password")
    with pytest.raises(Missing):
        member.console("m", "password")


def test_a_watcher_is_told_that_the_node_is_lost(node):
    node.fault("*", "refuse", count=1)
    node.fault("watch", "silent", count=1)
    with pytest.raises(Unreachable):
        node.watch(lambda *event: None, lambda: False)
    with pytest.raises(Refused):
        node.ping()


def test_an_address_with_a_typing_mistake_is_refused(reach):
    for options in ("core=5", "cores=many"):
        with pytest.raises(Refused):
            reach(options)
    found = reach("cores=3&memory_gb=7").capabilities()
    assert (found.cpu_cores, found.memory) == (3, 7 * GiB)
