"""Batches of starts on a node whose machines were changed externally, that disconnects, or whose worker is killed. The
tests run on the simulated node and on a real hypervisor, with machines that have no bootable disk."""

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
from tests.support.worker_faults import WorkerKilled
from worker import nodes
from worker.engine import batch
from worker.engine.reaper import TASK_LEASE_SECONDS
from worker.nodes import NodeSpec
from worker.nodes.base import NodeDriver, Power, Seed
from worker.nodes.libvirt import private_daemon
from worker.sync.node_sync import reconcile
from worker.tasks.machine_spec import build_disk, build_spec, get_seed_name

pytestmark = pytest.mark.usefixtures("long_batch_deadline")


@dataclass(frozen=True)
class BatchNode:
    """The node of the panel, a second connection for external changes, and the libvirt daemon behind it."""

    node: NodeDriver
    external_node: NodeDriver
    daemon: Daemon | None = None

    def disconnect(self):
        if self.daemon:
            os.kill(int((self.daemon.directory / "run" / "libvirtd.pid").read_text()), signal.SIGKILL)
        else:
            self.node.fault("*", "silent")

    def reconnect(self):
        if self.daemon:
            self.daemon.start()
        else:
            self.node.clear()
        self.node.ping()

    def read_process_ids(self):
        """Return the process ids of the running machines of the real hypervisor, by name."""
        run = self.daemon.directory / "run" / "qemu" if self.daemon else Path("/nonexistent")
        return {file.stem: file.read_text() for file in run.glob("h*.pid")}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """A libvirt daemon of this module, because the tests kill it."""
    directory = tmp_path_factory.mktemp("own")
    hypervisor = Daemon(private_daemon.make_connection_uri(directory), directory, claim_network())
    hypervisor.start()
    yield hypervisor
    private_daemon.stop(directory)


@pytest.fixture(params=["simulated", pytest.param("libvirt", marks=pytest.mark.guest)])
def batch_node(request, rolled_back_app, cast, node):
    if request.param == "simulated":
        yield BatchNode(node, node)
        return
    daemon, row = request.getfixturevalue("daemon"), session.get(Hypervisor, cast.node.id)
    row.driver, row.uri, row.network = "libvirt", daemon.uri, "public"
    row.storages[0].path = str(daemon.directory / "disks")
    session.commit()
    directory = rolled_back_app.extensions["config"].data_dir
    spec = NodeSpec(row.id, row.name, row.driver, row.uri)
    driver, external_driver = nodes.connect(spec, directory), nodes.load_driver("libvirt")(spec, directory)
    driver.ping()
    driver.prepare_pool(row.storages[0].name, row.storages[0].path)
    yield BatchNode(driver, external_driver, daemon)
    with ThreadPoolExecutor(8) as executor:
        list(executor.map(driver.delete, [machine.id for machine in driver.machines()]))
    for disk in driver.disks("default"):
        driver.delete_disk("default", disk.name)
    external_driver.close()


@pytest.fixture
def create_instances(batch_node, cast):
    """Return a function that creates deployed instances that are off: `create_instances(4)`."""

    def create(count):
        instances = [cast.instance() for _ in range(count)]
        for instance in instances:
            batch_node.node.create_disk(build_disk(instance.disks[0]))
            batch_node.node.create_seed(
                "default", get_seed_name(instance), Seed("instance-id: x\n", "#cloud-config\n", "")
            )
            batch_node.node.define(build_spec(instance))
            instance.deployed, instance.power = True, "off"
        session.commit()
        return instances

    return create


@pytest.fixture
def fault_at_start(batch_node, monkeypatch):
    """Return a context manager that calls `then` with the number of earlier starts, before or after each start of the
    node: `with fault_at_start(call, after=True)`."""

    @contextlib.contextmanager
    def patch_start(then, *, after=False):
        real, count = type(batch_node.node).start, iter(range(100))

        def start(self, machine_id):
            number = next(count)
            if not after:
                then(number)
            real(self, machine_id)
            if after:
                then(number)

        with monkeypatch.context() as patched:
            patched.setattr(type(batch_node.node), "start", start)
            yield

    return patch_start


def request_starts(instances, request_action):
    return [request_action(instance, "start") for instance in instances]


def run_batch(tasks):
    batch.run([task.id for task in tasks], "batch")


def assert_power_matches_node(batch_node, instances, reload):
    """Check that each row has the power that the node reports, and return it. A paused machine counts as on."""
    node_power = {machine.id: "off" if machine.power is Power.off else "on" for machine in batch_node.node.machines()}
    for instance in instances:
        assert reload(instance).power == node_power[instance.id], instance.name
    return [reload(instance).power for instance in instances]


def test_batch_fails_only_tasks_of_externally_changed_instances(
    batch_node, create_instances, request_action, reload_task, reload, run_tasks
):
    """One instance lacks its disk, one runs already, one is not on the node, one is paused, one is protected, one is
    suspended meanwhile; the others are unchanged."""
    instances = create_instances(8)
    _, without_disk, running, deleted, paused, protected, suspended, _ = instances
    batch_node.external_node.delete_disk("default", without_disk.disks[0].name)
    batch_node.external_node.start(running.id)
    batch_node.external_node.delete(deleted.id)
    batch_node.external_node.start(paused.id)
    batch_node.external_node.suspend(paused.id)
    protected.protection_enabled = True
    before = batch_node.read_process_ids()
    tasks = request_starts(instances, request_action)
    suspended.suspended_reason = "user"
    session.commit()
    run_batch(tasks)
    run_tasks()
    statuses = [reload_task(task).status for task in tasks]
    assert statuses == ["completed", "failed", *["completed"] * 4, "failed", "completed"]
    expected_power = ["on" if status == "completed" else "off" for status in statuses]
    assert assert_power_matches_node(batch_node, instances, reload) == expected_power
    assert "disk" in reload_task(tasks[1]).error
    assert "suspended" in reload_task(tasks[6]).error
    assert before.items() <= batch_node.read_process_ids().items(), "running machines must not be restarted"
    reconcile(running.hypervisor_id)
    assert assert_power_matches_node(batch_node, instances, reload) == expected_power
    batch_node.node.create_disk(build_disk(without_disk.disks[0]))
    later = request_action(without_disk, "start")
    run_tasks()
    assert (reload_task(later).status, reload(without_disk).power, reload(without_disk).last_error) == (
        "completed",
        "on",
        None,
    )


@pytest.mark.parametrize("after", [False, True])
def test_batch_resumes_after_node_disconnect(
    batch_node, create_instances, request_action, reload_task, reload, run_tasks, fault_at_start, after
):
    """The node disconnects before or after the third start. Earlier starts are completed, the rest is run after it
    reconnects, and no machine is started twice."""
    instances = create_instances(4)
    tasks = request_starts(instances, request_action)
    with fault_at_start(lambda number: number == 2 and batch_node.disconnect(), after=after):
        run_batch(tasks)
    started = 3 if after else 2
    assert [reload_task(task).status for task in tasks] == ["completed"] * started + ["queued"] * (4 - started)
    assert [reload(instance).power for instance in instances] == ["on"] * started + ["off"] * (4 - started)
    before = batch_node.read_process_ids()
    batch_node.reconnect()
    assert assert_power_matches_node(batch_node, instances, reload).count("on") == started
    run_tasks()
    assert [reload_task(task).status for task in tasks] == ["completed"] * 4
    assert assert_power_matches_node(batch_node, instances, reload) == ["on"] * 4
    assert before.items() <= batch_node.read_process_ids().items()


def test_batch_does_not_repeat_start_after_lost_answer(
    batch_node, create_instances, request_action, reload_task, reload, run_tasks, fault_at_start
):
    """The third machine was started without an answer. It is found running and not started again."""
    instances = create_instances(4)
    tasks = request_starts(instances, request_action)

    def disconnect(number):
        if number == 2:
            batch_node.disconnect()
            batch_node.node.ping()

    with fault_at_start(disconnect, after=True):
        run_batch(tasks)
    assert [reload_task(task).status for task in tasks] == ["completed", "completed", "queued", "queued"]
    before = batch_node.read_process_ids()
    batch_node.reconnect()
    run_tasks()
    assert [reload_task(task).status for task in tasks] == ["completed"] * 4
    assert assert_power_matches_node(batch_node, instances, reload) == ["on"] * 4
    assert before.items() <= batch_node.read_process_ids().items()


def test_batch_of_killed_worker_is_completed_by_another(
    batch_node, create_instances, request_action, reload_task, reload, run_tasks, fault_at_start, manual_reaper
):
    """Also the tasks whose machines were already started."""
    instances = create_instances(4)
    tasks = request_starts(instances, request_action)

    def kill(number):
        if number == 2:
            raise WorkerKilled

    with fault_at_start(kill, after=True), pytest.raises(WorkerKilled):
        run_batch(tasks)
    session.rollback()
    assert [(reload_task(task).status, reload_task(task).worker) for task in tasks] == [("running", "batch")] * 4
    before = batch_node.read_process_ids()
    manual_reaper.advance(TASK_LEASE_SECONDS + 10)
    run_tasks()
    assert [(reload_task(task).status, reload_task(task).attempt) for task in tasks] == [("completed", 2)] * 4
    assert assert_power_matches_node(batch_node, instances, reload) == ["on"] * 4
    assert before.items() <= batch_node.read_process_ids().items()
