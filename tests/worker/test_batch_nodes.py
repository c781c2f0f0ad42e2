"""Starts that are carried together when the node is not as the rows say, is cut off, or loses its worker: on the
simulated node and on a real hypervisor, with machines that have nothing to boot from."""

import contextlib
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from panel.core.db import session
from panel.models import Hypervisor
from tests.support.local_hypervisor import LocalHypervisor as Daemon
from tests.support.local_hypervisor import claim_network
from tests.worker.conftest import WorkerKilled
from worker import nodes
from worker.engine import batch
from worker.engine.reaper import TASK_LEASE_SECONDS
from worker.nodes import NodeSpec
from worker.nodes.base import NodeDriver, Power, Seed
from worker.nodes.libvirt import private_daemon
from worker.sync.node_sync import reconcile
from worker.tasks.machine_spec import build_disk, build_spec, seed_name


@dataclass(frozen=True)
class BatchNode:
    """The node as the panel reaches it, the same as somebody else does, and the cable to it."""

    node: NodeDriver
    other: NodeDriver
    daemon: Daemon | None = None

    def cut(self):
        if self.daemon:
            os.kill(int((self.daemon.directory / "run" / "libvirtd.pid").read_text()), signal.SIGKILL)
        else:
            self.node.fault("*", "silent")

    def mend(self):
        if self.daemon:
            self.daemon.start()
        else:
            self.node.clear()
        self.node.ping()

    def processes(self):
        """Of the real machines that run, by their names."""
        run = self.daemon.directory / "run" / "qemu" if self.daemon else Path("/nonexistent")
        return {file.stem: file.read_text() for file in run.glob("h*.pid")}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """A hypervisor of these tests' own, because they kill it."""
    directory = tmp_path_factory.mktemp("own")
    made = Daemon(private_daemon.connection_uri(directory), directory, claim_network())
    made.start()
    yield made
    private_daemon.stop(directory)


@pytest.fixture(params=["simulated", pytest.param("libvirt", marks=pytest.mark.guest)])
def host(request, rolled_back_app, cast, node):
    if request.param == "simulated":
        yield BatchNode(node, node)
        return
    daemon, row = request.getfixturevalue("daemon"), session.get(Hypervisor, cast.node.id)
    row.driver, row.uri, row.network = "libvirt", daemon.uri, "public"
    row.storages[0].path = str(daemon.directory / "disks")
    session.commit()
    directory = rolled_back_app.extensions["config"].data_dir
    spec = NodeSpec(row.id, row.name, row.driver, row.uri)
    made, other = nodes.connect(spec, directory), nodes.load_driver("libvirt")(spec, directory)
    made.ping()
    made.prepare_pool(row.storages[0].name, row.storages[0].path)
    yield BatchNode(made, other, daemon)
    with ThreadPoolExecutor(8) as hands:
        list(hands.map(made.delete, [each.id for each in made.machines()]))
    for disk in made.disks("default"):
        made.delete_disk("default", disk.name)
    other.close()


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A real node may be slow here: what is not about time happens in one batch all the same."""
    monkeypatch.setattr(batch, "BATCH_DEADLINE_SECONDS", 600)


@pytest.fixture
def fleet(host, cast):
    """Makes machines that are off."""

    def fleet(count):
        made = [cast.instance() for _ in range(count)]
        for instance in made:
            host.node.create_disk(build_disk(instance.disks[0]))
            host.node.create_seed("default", seed_name(instance), Seed("instance-id: x\n", "#cloud-config\n", ""))
            host.node.define(build_spec(instance))
            instance.deployed, instance.power = True, "off"
        session.commit()
        return made

    return fleet


@pytest.fixture
def fault_at_start(host, monkeypatch):
    """What happens at a start of the node, told how many there were before: `with met(call, after=True)`."""

    @contextlib.contextmanager
    def met(then, *, after=False):
        real, count = type(host.node).start, iter(range(100))

        def start(self, machine_id):
            number = next(count)
            if not after:
                then(number)
            real(self, machine_id)
            if after:
                then(number)

        with monkeypatch.context() as patched:
            patched.setattr(type(host.node), "start", start)
            yield

    return met


def request_starts(fleet, act):
    return [act(instance, "start") for instance in fleet]


def run_batch(tasks):
    batch.run([row.id for row in tasks], "batch")


def assert_power_matches_node(host, fleet, again):
    """Each machine's power, which is the same in its row and on the node. One that stands still is on."""
    found = {seen.id: "off" if seen.power is Power.off else "on" for seen in host.node.machines()}
    for instance in fleet:
        assert again(instance).power == found[instance.id], instance.name
    return [again(instance).power for instance in fleet]


def test_an_external_change_fails_only_its_own_task_of_a_batch(
    host, fleet, request_action, reload_task, reload, run_tasks
):
    """A disk is gone, one machine runs already, one is not there any more, one stands still; one is protected, one was
    suspended meanwhile; the others are ordinary."""
    machines = fleet(8)
    _, diskless, running, gone, still, protected, suspended, _ = machines
    host.other.delete_disk("default", diskless.disks[0].name)
    host.other.start(running.id)
    host.other.delete(gone.id)
    host.other.start(still.id)
    host.other.suspend(still.id)
    protected.protection_enabled = True
    before = host.processes()
    tasks = request_starts(machines, request_action)
    suspended.suspended_reason = "user"
    session.commit()
    run_batch(tasks)
    run_tasks()
    done = [reload_task(task).status for task in tasks]
    assert done == ["completed", "failed", *["completed"] * 4, "failed", "completed"]
    assert assert_power_matches_node(host, machines, reload) == ["on", "off", "on", "on", "on", "on", "off", "on"]
    assert "disk" in reload_task(tasks[1]).error
    assert "suspended" in reload_task(tasks[6]).error
    assert before.items() <= host.processes().items(), "what ran already goes on"
    reconcile(running.hypervisor_id)
    assert assert_power_matches_node(host, machines, reload) == ["on", "off", "on", "on", "on", "on", "off", "on"]
    host.node.create_disk(build_disk(diskless.disks[0]))
    later = request_action(diskless, "start")
    run_tasks()
    assert (reload_task(later).status, reload(diskless).power, reload(diskless).last_error) == ("completed", "on", None)


@pytest.mark.parametrize("after", [False, True])
def test_a_node_that_is_cut_off_in_the_middle(
    host, fleet, request_action, reload_task, reload, run_tasks, fault_at_start, after
):
    """Before the third start, or with it done: what was carried before is done, the rest is carried when the node is
    back, and no machine is started twice."""
    machines = fleet(4)
    tasks = request_starts(machines, request_action)
    with fault_at_start(lambda number: number == 2 and host.cut(), after=after):
        run_batch(tasks)
    started = 3 if after else 2
    assert [reload_task(task).status for task in tasks] == ["completed"] * started + ["queued"] * (4 - started)
    assert [reload(instance).power for instance in machines] == ["on"] * started + ["off"] * (4 - started)
    before = host.processes()
    host.mend()
    assert assert_power_matches_node(host, machines, reload).count("on") == started
    run_tasks()
    assert [reload_task(task).status for task in tasks] == ["completed"] * 4
    assert assert_power_matches_node(host, machines, reload) == ["on"] * 4
    assert before.items() <= host.processes().items()


def test_an_answer_that_is_lost_with_the_node(
    host, fleet, request_action, reload_task, reload, run_tasks, fault_at_start
):
    """The third machine was started, and nobody said so: it is found running, and not started twice."""
    machines = fleet(4)
    tasks = request_starts(machines, request_action)

    def lose(number):
        if number == 2:
            host.cut()
            host.node.ping()

    with fault_at_start(lose, after=True):
        run_batch(tasks)
    assert [reload_task(task).status for task in tasks] == ["completed", "completed", "queued", "queued"]
    before = host.processes()
    host.mend()
    run_tasks()
    assert [reload_task(task).status for task in tasks] == ["completed"] * 4
    assert assert_power_matches_node(host, machines, reload) == ["on"] * 4
    assert before.items() <= host.processes().items()


def test_a_worker_that_is_killed_in_the_middle(
    host, fleet, request_action, reload_task, reload, run_tasks, fault_at_start, manual_reaper
):
    """Another one carries all of them, also those that had been started already."""
    machines = fleet(4)
    tasks = request_starts(machines, request_action)

    def kill(number):
        if number == 2:
            raise WorkerKilled

    with fault_at_start(kill, after=True), pytest.raises(WorkerKilled):
        run_batch(tasks)
    session.rollback()
    assert [(reload_task(task).status, reload_task(task).worker) for task in tasks] == [("running", "batch")] * 4
    before = host.processes()
    manual_reaper.advance(TASK_LEASE_SECONDS + 10)
    run_tasks()
    assert [(reload_task(task).status, reload_task(task).attempt) for task in tasks] == [("completed", 2)] * 4
    assert assert_power_matches_node(host, machines, reload) == ["on"] * 4
    assert before.items() <= host.processes().items()
