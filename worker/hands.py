"""What a worker process does with the bells it hears: a few threads carry the calls, one keeps their heartbeats fresh.

RQ delivers the bells (`take` is the function it calls). The main thread only passes them on, so one process carries many
tasks that mostly wait for nodes. While all hands are full it stops listening, and other workers hear the next bell.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import structlog
from sqlalchemy import update

from panel import clock
from panel.db import new_id, session
from panel.models import Task
from worker import task

log = structlog.get_logger()


class Hands:
    def __init__(self, app, count):
        self.app, self.worker = app, f"worker-{new_id()}"
        self.free = threading.Semaphore(count)
        self.threads = ThreadPoolExecutor(count, thread_name_prefix="hand")
        self.holding: set[str] = set()
        self.stopped = threading.Event()
        threading.Thread(target=self.beat, name="heartbeat", daemon=True).start()

    def give(self, function, *args):
        """Starts the call on a free hand; waits for one when all are full."""
        self.free.acquire()
        self.threads.submit(self.carry, function, *args).add_done_callback(lambda _: self.free.release())

    def carry(self, function, *args):
        with self.app.app_context():
            try:
                if function == "worker.task.run":
                    self.run(*args)
                else:
                    module, name = function.rsplit(".", 1)
                    getattr(import_module(module), name)(*args)
            except Exception:
                log.exception("call_failed", function=function)
            finally:
                session.rollback()

    def run(self, task_id):
        if task_id in self.holding:
            return
        self.holding.add(task_id)
        try:
            task.run(task_id, self.worker)
        finally:
            self.holding.discard(task_id)

    def beat(self):
        """Says that the tasks in hand are alive. A thread that hangs for ever in a node call cannot happen: every call of
        a driver ends."""
        while not self.stopped.wait(task.LEASE.total_seconds() / 5):
            if not self.holding:
                continue
            with self.app.app_context():
                try:
                    mine = update(Task).where(Task.id.in_(list(self.holding)), Task.worker == self.worker)
                    session.execute(mine.where(Task.status == "running").values(heartbeat_at=clock.now()))
                    session.commit()
                except Exception:
                    log.exception("heartbeat_failed")

    def put_down(self, patience=None):
        """Takes no more and finishes what is in hand. `patience` is in seconds; tasks that need longer are left to the
        sweep, which hands them to another worker."""
        until = patience and time.monotonic() + patience
        self.threads.shutdown(wait=False, cancel_futures=True)
        while self.holding and (until is None or time.monotonic() < until):
            time.sleep(0.05)
        self.stopped.set()


hands: Hands | None = None


def take(function, *args):
    """Called by RQ for each bell."""
    hands.give(function, *args)
