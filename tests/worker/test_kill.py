"""Real worker processes that are killed, paused and doubled, and a Redis that is lost: no task is lost and none runs
twice. Heartbeats are faster than in production to keep the tests short."""

import signal

import pytest
from sqlalchemy import func, select, update

from panel.core import jobs
from panel.core.db import session
from panel.models import Address, Event, Hypervisor, Instance, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import instances
from tests.support.waiting import WAIT_TIMEOUT_SECONDS, wait_until
from tests.support.worker_site import WorkerSite, run_site
from worker.nodes import NodeSpec, connect

pytestmark = pytest.mark.processes

WORKER_SCRIPT = """
from functools import partial
from panel.core.config import load
from worker.engine import main, pool
pool.TaskPool = partial(pool.TaskPool, heartbeat_interval=0.5)
main.run_worker(load())
"""

SCHEDULER_SCRIPT = """
import sys
from panel.core.config import load
from worker.engine import main
from worker.engine.scheduler import Scheduler
Scheduler(main.prepare_app(load()), lease=float(sys.argv[1])).run()
"""

SHORT_LEASE_SECONDS, LONG_LEASE_SECONDS = 8.0, 40.0
"""Seconds without a heartbeat after which a worker counts as lost. Long in tests that kill none, so that a busy machine
loses no worker."""

STAGES_BY_NODE_CALL = {
    "has_image": "Preparing",
    "put_image": "Copying the image Debian 12 (tiny)",
    "create_disk": "Creating the disk",
    "create_seed": "Writing the first-boot configuration",
    "define": "Defining the machine",
    "start": "Starting",
}


class Site(WorkerSite):
    def __init__(self, app, directory):
        super().__init__(app, directory, PANEL_WORKER_THREADS="4")
        row = app.cast.node
        self.node = connect(NodeSpec(row.id, row.name, row.driver, row.uri), self.config.data_dir)

    def start_worker(self, name):
        return self.start_script(name, WORKER_SCRIPT)

    def start_scheduler(self, lease=SHORT_LEASE_SECONDS, name="schedule"):
        return self.start_script(name, SCHEDULER_SCRIPT, str(lease))

    def freeze_process(self, process):
        """Stop a process outside of its transactions: SQLite has one write lock, which nothing takes from a process."""
        session.connection()  # begins a transaction, which takes the write lock
        process.send_signal(signal.SIGSTOP)
        session.rollback()

    def find_claiming_worker(self, task):
        """Return the name of the worker process that has claimed the task."""
        worker_id = wait_until(lambda: self.read_task(task).worker, "a worker")
        return next(
            process_name
            for process_name in self.processes
            if process_name != "redis" and worker_id in self.read_log(process_name)
        )

    def request_deploy(self):
        cast = self.app.cast
        placement = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        instance = instances.create(session.merge(cast.owner), **placement)
        task, _ = instances.deploy(instance, image_id=cast.image.id, actor="test")
        ids = instance.id, task.id
        session.commit()
        return ids

    def read_row(self, query):
        """Return the first row of a query without leaving a lock."""
        row = session.execute(query).first()
        session.rollback()
        return row

    def read_task(self, task_id):
        return self.read_row(select(Task.__table__).where(Task.id == task_id))

    def read_state(self, instance_id):
        return self.read_row(select(Instance.state).where(Instance.id == instance_id)).state

    def wait_for_task(self, task_id, **facts):
        """Wait until the row of the task has these values."""
        read_values = lambda: {name: getattr(self.read_task(task_id), name) for name in facts}  # noqa: E731
        try:
            wait_until(lambda: read_values() == facts, facts)
        except AssertionError as error:
            raise AssertionError(f"{error}, last read: {read_values()}") from None

    def wait_until_idle(self):
        """Wait until no task is open."""
        wait_until(
            lambda: self.read_row(select(Task.id).where(Task.status.in_(OPEN_STATUSES))) is None, "all tasks to end"
        )

    def assert_deployed_once(self, *instance_ids):
        """Check that each instance has one machine that was started once, its disks and addresses, and each event
        once."""
        rows = [session.get(Instance, instance_id) for instance_id in instance_ids]
        names = {instance.name for instance in rows}
        assert {machine.name for machine in self.node.machines()} == names
        disks = {disk.name for disk in self.node.disks("default") if disk.name.startswith("h")}
        assert disks == {f"{name}-{part}" for name in names for part in ("0.qcow2", "seed.iso")}
        assert all(boots == 1 for (boots,) in self.node.state.rows("select boots from machines"))
        assigned_addresses = select(func.count()).where(Address.interface_id.is_not(None))
        assert session.scalar(assigned_addresses) == 2 * len(rows)
        for instance in rows:
            assert (instance.state, len(instance.addresses)) == ("running", 2)
            kinds = session.scalars(select(Event.kind).where(Event.resource_id == instance.id).order_by(Event.id)).all()
            assert kinds == ["instance.created", "instance.deployed"]
        session.rollback()


@pytest.fixture
def site(tmp_path):
    with run_site(tmp_path, Site) as installation:
        yield installation


def test_deploy_survives_worker_kill_at_each_step(site):
    """All steps share one installation, because starting processes is slow."""
    instance_ids, workers = [], ("worker 1", "worker 2")
    for name in workers:
        site.start_worker(name)
    site.start_scheduler()
    for number, (step, stage) in enumerate(STAGES_BY_NODE_CALL.items()):
        if step == "put_image":
            delete_image_copies(site.node)
        site.node.fault(step, "slow", 1, 600)
        instance, task = site.request_deploy()
        site.wait_for_task(task, stage=stage)
        wait_until(lambda: not site.node.faults(), "the call")
        claiming_worker = site.find_claiming_worker(task)
        site.kill_process(claiming_worker)
        site.start_worker(f"{claiming_worker} after {number}")
        site.wait_for_task(task, status="completed", attempt=2)
        instance_ids.append(instance)
        site.assert_deployed_once(*instance_ids)


def delete_image_copies(node):
    """Delete the copies of images, so that the next deploy copies them again."""
    with node.state.transaction() as db:
        db.execute("DELETE FROM disks WHERE kind = 'image'")


def test_tasks_complete_after_all_processes_were_killed(site):
    deploys = [site.request_deploy() for _ in range(6)]
    site.node.fault("define", "slow", 6, 600)
    site.start_worker("worker")
    site.start_scheduler()
    for _, task in deploys[:4]:
        site.wait_for_task(task, stage="Defining the machine")
    for name in ("worker", "schedule", "redis"):
        site.kill_process(name)
    site.node.clear()
    site.start_redis()
    site.start_worker("worker")
    site.start_scheduler()
    site.wait_until_idle()
    site.assert_deployed_once(*(instance for instance, _ in deploys))


def test_tasks_complete_after_redis_data_loss(site):
    """One task runs and others wait. When it ends, no notification can be sent."""
    site.node.fault("start", "slow", 1, 3)
    deploys = [site.request_deploy()]
    site.start_worker("worker")
    site.wait_for_task(deploys[0][1], stage="Starting")
    deploys += [site.request_deploy() for _ in range(4)]
    site.kill_process("redis")
    deploys.append(site.request_deploy())
    site.wait_for_task(deploys[0][1], status="completed")
    site.start_redis()
    site.start_scheduler(LONG_LEASE_SECONDS)
    site.wait_until_idle()
    site.assert_deployed_once(*(instance for instance, _ in deploys))
    assert [site.read_task(task).attempt for _, task in deploys] == [1] * 6


def test_two_workers_with_repeated_notifications_run_each_task_once(site):
    deploys = [site.request_deploy() for _ in range(10)]
    for _, task in deploys * 5:
        jobs.notify(task)
    for name in ("worker 1", "worker 2"):
        site.start_worker(name)
    site.start_scheduler(LONG_LEASE_SECONDS)
    site.wait_until_idle()
    site.assert_deployed_once(*(instance for instance, _ in deploys))
    assert [site.read_task(task).attempt for _, task in deploys] == [1] * 10


def test_frozen_worker_detects_lost_lease(site):
    instance, task = site.request_deploy()
    site.node.fault("define", "slow", 1, 5)
    frozen = site.start_worker("worker 1")
    site.start_scheduler()
    site.wait_for_task(task, stage="Defining the machine")
    site.freeze_process(frozen)
    site.start_worker("worker 2")
    site.wait_for_task(task, status="completed", attempt=2)
    frozen.send_signal(signal.SIGCONT)
    wait_until(lambda: "task_lease_lost" in site.read_log("worker 1"), "the first worker to detect the lost lease")
    site.assert_deployed_once(instance)


def test_terminated_worker_finishes_its_task_and_claims_no_other(site):
    site.node.fault("start", "slow", 1, 2)
    instance, task = site.request_deploy()
    worker = site.start_worker("worker")
    site.wait_for_task(task, stage="Starting")
    worker.terminate()
    other_instance, waiting_task = site.request_deploy()
    assert worker.wait(WAIT_TIMEOUT_SECONDS) == 0
    assert (site.read_task(task).status, site.read_task(waiting_task).status) == ("completed", "queued")
    site.start_worker("worker 2")
    site.start_scheduler(LONG_LEASE_SECONDS)
    site.wait_until_idle()
    site.assert_deployed_once(instance, other_instance)
    assert site.read_task(waiting_task).attempt == 1


def test_second_scheduler_takes_over_from_killed_leader(site):
    """It receives the node's events, finds the lost worker and repeats the lost notifications."""
    instance, task = site.request_deploy()
    site.node.fault("define", "slow", 1, 600)
    site.start_worker("worker")
    site.start_scheduler(name="first")
    wait_until(lambda: "node_checked" in site.read_log("first"), "the first to lead")
    site.start_scheduler()
    site.wait_for_task(task, stage="Defining the machine")
    for name in ("first", "worker"):
        site.kill_process(name)
    site.start_worker("worker 2")
    site.wait_for_task(task, status="completed", attempt=2)
    site.assert_deployed_once(instance)


def test_scheduler_records_power_events_of_guests(site):
    """The node reports them to the scheduler. A machine that vanishes is an error on its row."""
    (first, _), (second, _) = site.request_deploy(), site.request_deploy()
    site.start_worker("worker")
    site.start_scheduler()
    site.wait_until_idle()
    site.node.guest_powers_off(first)
    wait_until(lambda: site.read_state(first) == "stopped", "the event")
    site.node.external_delete(second)
    wait_until(lambda: site.read_state(second) == "stopped", "the event")
    assert site.read_row(select(Instance.missing_on_node).where(Instance.id == second)).missing_on_node
    session.execute(
        update(Hypervisor).values(uri="simulated://?deadline=1")
    )  # a changed URI makes the scheduler connect again
    session.commit()
    site.node.external_start(first)
    wait_until(lambda: site.read_state(first) == "running", "the new node watcher")
    schedule = site.processes["schedule"]
    site.node.fault("*", "silent")
    schedule.terminate()
    assert schedule.wait(WAIT_TIMEOUT_SECONDS) == 0
