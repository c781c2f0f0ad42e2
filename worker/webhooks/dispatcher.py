"""Send what is due to webhooks, from every worker process.

There are threads for receivers that answer at once, and more for those that do not, or have not been tried so far. No
account gets more than a share of the latter. A run whose receiver stalls counts as one of the latter, whatever it was.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import structlog

from panel.core.database_errors import log_failure
from panel.core.db import new_id, session
from panel.services.webhooks import delivery_queue
from worker.webhooks.connection import trust
from worker.webhooks.delivery_run import Run

log = structlog.get_logger()

QUICK_THREADS, SLOW_THREADS = 16, 128
"""For receivers that answer at once, and for others. They are started when they are needed."""

LOOK = 0.5
RENEW = 10.0
"""Seconds between two looks for what is due, and between two signs of life to the leases."""


class Sender:
    def __init__(self, app, quick_threads=QUICK_THREADS, slow_threads=SLOW_THREADS):
        self.app, self.name, self.numbers = app, f"sender-{new_id()}", count(1)
        self.context = trust(app.extensions["config"].webhook_ca)
        self.quick_threads, self.slow_threads = quick_threads, slow_threads
        self.pool = ThreadPoolExecutor(quick_threads + slow_threads, thread_name_prefix="webhook")
        self.runs = set()
        self.woken, self.stopped = threading.Event(), threading.Event()
        self.renewed = time.monotonic()
        self.eye = threading.Thread(target=self.keep, name="webhooks", daemon=True)

    def start(self):
        self.eye.start()
        return self

    def put_down(self):
        """Begins no more attempts; those that are under way end and are written down."""
        self.stopped.set()
        self.pool.shutdown()
        self.woken.set()
        self.eye.join()

    def keep(self):
        while not self.stopped.is_set() or self.runs:
            self.woken.wait(LOOK)
            self.woken.clear()
            for run in self.under_way():
                run.line.cut_late()
            try:
                with self.app.app_context():
                    self.look()
            except Exception as error:
                log_failure(log, "webhooks_wait", error)  # the database may be away for a moment
                self.stopped.wait(2)

    def look(self):
        if time.monotonic() - self.renewed > RENEW:
            self.renewed = time.monotonic()
            delivery_queue.renew([run.holder for run in self.under_way()])
            session.commit()
        for quick in (True, False):
            free = self.free_threads(quick)
            if free > 0 and not self.stopped.is_set():
                self.begin(quick, free)

    def free_threads(self, quick):
        """Return how many runs of this kind may begin."""
        running = self.under_way()
        slow = sum(run.is_stalled or not run.quick for run in running)
        if not quick:
            return self.slow_threads - slow
        return min(self.quick_threads + slow, self.quick_threads + self.slow_threads) - len(running)

    def begin(self, quick, free):
        holder = f"{self.name}-{next(self.numbers)}"  # never used again: a lease that was lost stays lost
        claimed = delivery_queue.claim(holder, quick=quick, most=free, running=self.under_way())
        session.commit()
        for subscription in claimed:
            run = Run(subscription, holder, self.context, quick)
            self.runs.add(run)
            self.pool.submit(self.carry, run)

    def carry(self, run):
        try:
            with self.app.app_context():
                run.serve(self.stopped.is_set)
        except Exception as error:
            log_failure(log, "webhook_failed", error, subscription_id=run.subscription_id)  # its lease ends by itself
        finally:
            run.line.close()
            self.runs.discard(run)
            self.woken.set()

    def under_way(self):
        return list(self.runs)


sender: Sender | None = None
