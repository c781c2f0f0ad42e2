"""Send due deliveries to webhooks, from every worker process.

Fast receivers have threads of their own; slow and new ones share a larger number, of which one account gets only a
share. A run whose receiver stalls counts as slow.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Self

import structlog

from panel.core.database_errors import log_failure
from panel.core.db import generate_id, session
from panel.services.webhooks import delivery_queue
from worker.engine.application import Application
from worker.webhooks.connection import create_ssl_context
from worker.webhooks.delivery_run import DeliveryRun

log = structlog.get_logger()

FAST_THREADS, SLOW_THREADS = 16, 128
"""Threads for receivers that answer at once, and for others. They are started when they are needed."""

DISPATCH_INTERVAL_SECONDS = 0.5
LEASE_RENEW_INTERVAL_SECONDS = 10.0
"""Seconds between two searches for due deliveries, and between two renewals of the leases."""


class Dispatcher:
    def __init__(self, app: Application, fast_threads: int = FAST_THREADS, slow_threads: int = SLOW_THREADS) -> None:
        self.app, self.name, self.holder_numbers = app, f"dispatcher-{generate_id()}", count(1)
        self.ssl_context = create_ssl_context(app.extensions["config"].webhook_ca)
        self.fast_threads, self.slow_threads = fast_threads, slow_threads
        self.pool = ThreadPoolExecutor(fast_threads + slow_threads, thread_name_prefix="webhook")
        self.runs: set[DeliveryRun] = set()
        self.woken, self.stopped = threading.Event(), threading.Event()
        self.last_renewed_at = time.monotonic()
        self.thread = threading.Thread(target=self.run_loop, name="webhooks", daemon=True)

    def start(self) -> Self:
        self.thread.start()
        return self

    def shutdown(self) -> None:
        """Begin no more attempts. Those under way end and their outcomes are recorded.

        The thread ends first, because it may be about to submit a run to the pool.
        """
        self.stopped.set()
        self.woken.set()
        self.thread.join()
        self.pool.shutdown()

    def run_loop(self) -> None:
        while not self.stopped.is_set() or self.runs:
            self.woken.wait(DISPATCH_INTERVAL_SECONDS)
            self.woken.clear()
            for run in self.list_current_runs():
                run.connection.enforce_deadline()
            try:
                with self.app.app_context():
                    self.dispatch_due()
            except Exception as error:
                log_failure(log, "webhooks_wait", error)  # the database may be away for a moment
                self.stopped.wait(2)

    def dispatch_due(self) -> None:
        if time.monotonic() - self.last_renewed_at > LEASE_RENEW_INTERVAL_SECONDS:
            self.last_renewed_at = time.monotonic()
            delivery_queue.renew_leases([run.holder for run in self.list_current_runs()])
            session.commit()
        for is_fast in (True, False):
            free_count = self.count_free_threads(is_fast)
            if free_count > 0 and not self.stopped.is_set():
                self.start_runs(is_fast, free_count)

    def count_free_threads(self, is_fast: bool) -> int:
        """Return how many runs of this kind may begin."""
        running = self.list_current_runs()
        slow_count = sum(run.is_stalled or not run.is_fast for run in running)
        if not is_fast:
            return self.slow_threads - slow_count
        return min(self.fast_threads + slow_count, self.fast_threads + self.slow_threads) - len(running)

    def start_runs(self, is_fast: bool, free_count: int) -> None:
        holder = f"{self.name}-{next(self.holder_numbers)}"  # never used again: a lease that was lost stays lost
        claimed = delivery_queue.claim_subscriptions(
            holder, is_fast=is_fast, maximum=free_count, running=self.list_current_runs()
        )
        session.commit()
        for subscription in claimed:
            run = DeliveryRun(subscription, holder, self.ssl_context, is_fast)
            self.runs.add(run)
            self.pool.submit(self.serve_run, run)

    def serve_run(self, run: DeliveryRun) -> None:
        try:
            with self.app.app_context():
                run.serve(self.stopped.is_set)
        except Exception as error:
            log_failure(log, "webhook_failed", error, subscription_id=run.subscription_id)  # its lease expires
        finally:
            run.connection.close()
            self.runs.discard(run)
            self.woken.set()

    def list_current_runs(self) -> list[DeliveryRun]:
        return list(self.runs)
