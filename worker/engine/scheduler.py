"""Periodic jobs and one watcher for each node.

Any number of schedulers may run. The one that holds a lock in Redis is the leader and does the work. If two lead for a
moment, nothing is done twice: every change that they make is conditional.

RQ's own cron is not used: it has no leader election (two of them enqueue everything twice) and ignores the JSON
serializer.
"""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import structlog
from redis import RedisError
from redis.lock import Lock
from sqlalchemy import select

from panel.core import context
from panel.core.database_errors import log_failure
from panel.core.db import session
from panel.models import Hypervisor
from panel.services import schedule_runs
from worker.engine.application import Application
from worker.engine.reaper import TASK_LEASE_SECONDS, Reaper
from worker.engine.registry import PERIODIC_JOBS, PeriodicJob
from worker.nodes.base import NodeError, Power
from worker.sync import node_sync

log = structlog.get_logger()

LEADER_LOCK_KEY = "panel:schedule"

NODE_POLL_INTERVAL_SECONDS = 10.0
"""Seconds between two polls of all machines of a node."""

NODE_PROBE_INTERVAL_SECONDS = 600.0
"""Seconds between two probes of a node's capabilities and capacity."""


class Scheduler:
    def __init__(self, app: Application, lease: float = TASK_LEASE_SECONDS) -> None:
        self.app, self.stopped = app, threading.Event()
        self.leader_lock = Lock(context.current().redis, LEADER_LOCK_KEY, timeout=20, blocking=False)
        self.watchers: dict[tuple[str, str, str], NodeWatcher] = {}
        self.calls: dict[Callable[[], object], float] = {
            Reaper(lease): lease / 8,
            self.update_watchers: 5,
            **{partial(start_job, job): job.seconds for job in PERIODIC_JOBS},
        }
        """Seconds between two calls. Each call is quick: longer work is enqueued or has its own thread."""
        self.due = dict.fromkeys(self.calls, 0.0)

    def run(self) -> None:
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: self.stopped.set())
        while not self.stopped.is_set():  # not `wait`: the signal handler would need the lock that it holds
            time.sleep(0.5)
            self.tick()
        self.close_watchers()
        self.resign()

    def tick(self) -> None:
        try:
            is_leading = self.is_leader()
        except RedisError as error:
            log.warning("scheduler_waits_for_redis", error=str(error))
            return time.sleep(2)
        if not is_leading:
            return self.close_watchers()
        for call, seconds in self.calls.items():
            if time.monotonic() >= self.due[call]:
                self.due[call] = time.monotonic() + seconds
                self.run_call(call)

    def run_call(self, call: Callable[[], object]) -> None:
        try:
            with self.app.app_context():
                call()
        except Exception as error:
            log_failure(log, "schedule_failed", error)  # the database may be away: the call comes again

    def is_leader(self) -> bool:
        if self.leader_lock.owned():
            self.leader_lock.reacquire()
            return True
        return self.leader_lock.acquire()

    def resign(self) -> None:
        try:
            if self.leader_lock.owned():
                self.leader_lock.release()
        except RedisError:
            pass  # the lock expires

    def update_watchers(self) -> None:
        """Start a watcher for each node. Close those whose node was removed or has another address."""
        rows = session.execute(select(Hypervisor.id, Hypervisor.driver, Hypervisor.uri))
        current = {(row.id, row.driver, row.uri) for row in rows}
        for key in self.watchers.keys() - current:
            self.watchers.pop(key).close()
        for key in current - self.watchers.keys():
            self.watchers[key] = NodeWatcher(self.app, key[0])

    def close_watchers(self) -> None:
        while self.watchers:
            self.watchers.popitem()[1].close()


def start_job(job: PeriodicJob) -> None:
    """Start the job, and record when for operators."""
    error = None
    try:
        job.start()
    except Exception as failure:
        error = type(failure).__name__
        raise
    finally:
        runs_in = "scheduler" if job.in_scheduler else "worker"
        with suppress(RedisError):  # the job itself matters more
            schedule_runs.record(job.path, job.seconds, runs_in=runs_in, error=error)


class NodeWatcher:
    """Watches one node with two threads: one listens to its events, the other polls its machines.

    It polls every few seconds and whenever listening begins again. The threads are daemons, so a silent node delays
    neither other nodes nor the end of the process.
    """

    def __init__(self, app: Application, hypervisor_id: str) -> None:
        self.app, self.hypervisor_id = app, hypervisor_id
        self.closed, self.due = threading.Event(), threading.Event()
        for loop in (self.listen, self.poll):
            threading.Thread(
                target=self.run_forever, args=(loop,), name=f"node watcher {hypervisor_id}", daemon=True
            ).start()

    def close(self) -> None:
        self.closed.set()
        self.due.set()

    def run_forever(self, loop: Callable[[], None]) -> None:
        while not self.closed.is_set():
            try:
                with self.app.app_context():
                    loop()
            except NodeError as error:
                # Only for debugging: polling records that the node is down.
                log.debug("watch_ended", node=self.hypervisor_id, detail=error.detail)
            except Exception as error:
                log_failure(log, "watch_failed", error, node=self.hypervisor_id)
            self.closed.wait(5)

    def listen(self) -> None:
        node = node_sync.connect_node(self.hypervisor_id)
        self.due.set()
        node.watch_events(self.on_power_event, self.closed.is_set)

    def on_power_event(self, instance_id: str, power: Power | None) -> None:
        with self.app.app_context():
            node_sync.on_power_event(self.hypervisor_id, instance_id, power)

    def poll(self) -> None:
        next_probe_at = 0.0
        while not self.closed.is_set():
            self.due.clear()
            if time.monotonic() >= next_probe_at:
                next_probe_at = time.monotonic() + NODE_PROBE_INTERVAL_SECONDS
                node_sync.probe(self.hypervisor_id)
            else:
                node_sync.reconcile(self.hypervisor_id)
            session.remove()
            self.due.wait(NODE_POLL_INTERVAL_SECONDS)
