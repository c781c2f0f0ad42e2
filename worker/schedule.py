"""What runs when, and the threads that listen to nodes. Any number may run: one at a time leads, by a lock in Redis.

RQ's own cron is not used: it has no leader (two of them ring everything twice) and ignores the JSON serializer.
"""

import signal
import threading
import time

import structlog
from redis import RedisError
from redis.lock import Lock
from sqlalchemy import select

from panel import jobs
from panel.db import session
from panel.models import Hypervisor
from worker import hypervisors
from worker.nodes.base import NodeError

log = structlog.get_logger()

EVERY = {
    "worker.sweep.sweep": 5,
    "worker.hypervisors.refresh_all": 10,
    "worker.tokens.write_down_use": 15,
}
"""Seconds between two calls."""

LEADING = "panel:schedule"


class Schedule:
    def __init__(self, app):
        self.app, self.stopped = app, threading.Event()
        self.lead = Lock(jobs.connection, LEADING, timeout=20, blocking=False)
        self.due = dict.fromkeys(EVERY, 0.0)
        self.watchers: dict[str, threading.Thread] = {}

    def run(self):
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: self.stopped.set())
        while not self.stopped.wait(0.5):
            try:
                if self.leads():
                    self.ring_due()
                    self.watch_nodes()
            except RedisError as error:
                log.warning("schedule_waits_for_redis", error=str(error))
                self.stopped.wait(2)
        self.step_down()

    def leads(self):
        if self.lead.owned():
            self.lead.reacquire()
            return True
        return self.lead.acquire()

    def step_down(self):
        try:
            if self.lead.owned():
                self.lead.release()
        except RedisError:
            pass  # the lock ends by itself

    def ring_due(self):
        for function, seconds in EVERY.items():
            if time.monotonic() >= self.due[function]:
                self.due[function] = time.monotonic() + seconds
                jobs.call(function)

    def watch_nodes(self):
        """One thread a node passes its events on; a thread that ended is started anew."""
        with self.app.app_context():
            present = session.scalars(select(Hypervisor.id)).all()
            session.rollback()
        for hypervisor_id in present:
            thread = self.watchers.get(hypervisor_id)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(target=self.watch, args=(hypervisor_id,), daemon=True)
                self.watchers[hypervisor_id] = thread
                thread.start()

    def watch(self, hypervisor_id):
        def event(instance_id, power):
            with self.app.app_context():
                hypervisors.changed(hypervisor_id, instance_id, power)

        with self.app.app_context():
            try:
                hypervisors.node_of(hypervisor_id).watch(event, self.stopped.is_set)
            except NodeError:
                self.stopped.wait(5)
            except Exception:
                log.exception("watch_failed")
                self.stopped.wait(5)
