"""A worker process's thread pool: a few threads run calls, one refreshes the heartbeats of their tasks.

RQ calls `on_message` in the main thread, which only submits to the pool, so one process runs many tasks that mostly
wait for nodes. When all threads are busy the process stops consuming, so other workers get the next message.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import count as numbers
from typing import Any

import structlog
from sqlalchemy import update

from panel.core import clock, context
from panel.core.database_errors import log_failure
from panel.core.db import generate_id, session
from panel.models import Task
from worker.engine import batch, claiming, runner
from worker.engine.application import Application

log = structlog.get_logger()

HEARTBEAT_INTERVAL_SECONDS = 8.0
"""Seconds between two heartbeats of a claimed task."""


class TaskPool:
    def __init__(
        self,
        app: Application,
        size: int,
        heartbeat_interval: float = HEARTBEAT_INTERVAL_SECONDS,
        name: str | None = None,
    ) -> None:
        self.app, self.worker = app, name or f"worker-{generate_id()}"
        self.free_slots = threading.Semaphore(size)
        self.threads = ThreadPoolExecutor(size, thread_name_prefix="task")
        self.active_claims: set[str] = set()
        """The worker names of the current claims. Each claim has its own name, which is never used again."""
        self.claim_numbers = numbers(1)
        self.stopped = threading.Event()
        threading.Thread(target=self.heartbeat_loop, args=(heartbeat_interval,), name="heartbeat", daemon=True).start()

    def submit(self, function: str, *args: Any) -> None:
        """Run the call on a free thread. Block while all threads are busy."""
        self.free_slots.acquire()
        self.threads.submit(self.run_call, function, *args).add_done_callback(lambda _: self.free_slots.release())

    def run_call(self, function: str, *args: Any) -> None:
        try:
            with self.app.app_context():
                if function == "worker.engine.runner.run":
                    self.run(*args)
                else:
                    module, name = function.rsplit(".", 1)
                    getattr(import_module(module), name)(*args)
        except Exception as error:
            log_failure(log, "call_failed", error, function=function)

    def run(self, *task_ids: str) -> None:
        name = f"{self.worker}-{next(self.claim_numbers)}"
        self.active_claims.add(name)
        try:
            runner.run(*task_ids, name) if len(task_ids) == 1 else batch.run(task_ids, name)
        finally:
            self.active_claims.discard(name)  # without a heartbeat, the reaper re-queues a row that is still running

    def heartbeat_loop(self, interval: float) -> None:
        """Refresh `heartbeat_at` of all active tasks. No thread blocks for ever: every driver call has a timeout."""
        while not self.stopped.wait(interval):
            names = list(self.active_claims)
            if not names:
                continue
            try:
                with self.app.app_context():
                    statement = update(Task).where(claiming.TASK_IS_UNDER_WAY, Task.worker.in_(names))
                    session.execute(statement.values(heartbeat_at=clock.now()))
                    session.commit()
            except Exception as error:
                log_failure(log, "heartbeat_failed", error)

    def shutdown(self) -> None:
        """Accept no more calls and wait for the running ones. Heartbeats continue until they end."""
        self.threads.shutdown()
        self.stopped.set()


def on_message(function: str, *args: Any) -> None:
    """Submit a notification to the pool. Called by RQ."""
    context.current().task_pool.submit(function, *args)
