"""A worker process's thread pool: a few threads run calls, one refreshes the heartbeats of their tasks.

RQ calls `on_message` in the main thread, which only submits to the pool, so one process runs many tasks that mostly
wait for nodes. When all threads are busy the process stops consuming, so other workers get the next message.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import count as numbers

import structlog
from sqlalchemy import update

from panel.core import clock
from panel.core.database_errors import log_failure
from panel.core.db import new_id, session
from panel.models import Task
from worker.engine import batch, claiming, runner

log = structlog.get_logger()

HEARTBEAT_INTERVAL_SECONDS = 8.0
"""Seconds between two heartbeats of a task in hand."""


class TaskPool:
    def __init__(self, app, size, heartbeat_interval=HEARTBEAT_INTERVAL_SECONDS):
        self.app, self.worker = app, f"worker-{new_id()}"
        self.free = threading.Semaphore(size)
        self.threads = ThreadPoolExecutor(size, thread_name_prefix="hand")
        self.active_claims: set[str] = set()
        """The names under which tasks were claimed: one for each claim, never used again."""
        self.claim_numbers = numbers(1)
        self.stopped = threading.Event()
        threading.Thread(target=self.heartbeat_loop, args=(heartbeat_interval,), name="heartbeat", daemon=True).start()

    def give(self, function, *args):
        """Starts the call on a free hand; waits for one when all are full."""
        self.free.acquire()
        self.threads.submit(self.carry, function, *args).add_done_callback(lambda _: self.free.release())

    def carry(self, function, *args):
        try:
            with self.app.app_context():
                if function == "worker.engine.runner.run":
                    self.run(*args)
                else:
                    module, name = function.rsplit(".", 1)
                    getattr(import_module(module), name)(*args)
        except Exception as error:
            log_failure(log, "call_failed", error, function=function)

    def run(self, *task_ids):
        name = f"{self.worker}-{next(self.claim_numbers)}"
        self.active_claims.add(name)
        try:
            runner.run(*task_ids, name) if len(task_ids) == 1 else batch.run(task_ids, name)
        finally:
            self.active_claims.discard(name)  # whatever happened: a row that is still running then has lost its worker

    def heartbeat_loop(self, interval):
        """Says that the tasks in hand are alive. A thread that hangs for ever in a node call cannot happen: every call
        of a driver ends."""
        while not self.stopped.wait(interval):
            names = list(self.active_claims)
            if not names:
                continue
            try:
                with self.app.app_context():
                    mine = update(Task).where(claiming.TASK_IS_UNDER_WAY, Task.worker.in_(names))
                    session.execute(mine.values(heartbeat_at=clock.now()))
                    session.commit()
            except Exception as error:
                log_failure(log, "heartbeat_failed", error)

    def shutdown(self):
        """Takes no more and finishes what is in hand; heartbeats go on meanwhile."""
        self.threads.shutdown()
        self.stopped.set()


pool: TaskPool | None = None


def on_message(function, *args):
    """Called by RQ for each bell."""
    pool.give(function, *args)
