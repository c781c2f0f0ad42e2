"""Sends what is due to webhooks, from every worker process. There are threads for receivers that answer at once, and
others for those that do not, or never did so far: these delay nobody but each other."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import structlog

from panel.database_errors import log_failure
from panel.db import new_id, session
from panel.services.webhooks import sending
from worker.webhooks.line import trust
from worker.webhooks.run import Run

log = structlog.get_logger()

THREADS = 16
"""For each of the two kinds of receivers."""

LOOK = 0.5
RENEW = 10.0
"""Seconds between two looks for what is due, and between two signs of life to the leases."""


class Sender:
    def __init__(self, app, threads=THREADS):
        self.app, self.name, self.numbers = app, f"sender-{new_id()}", count(1)
        self.context = trust(app.extensions["config"].webhook_ca)
        self.threads = threads
        self.pools = {quick: ThreadPoolExecutor(threads, thread_name_prefix="webhook") for quick in (True, False)}
        self.runs = {True: set(), False: set()}
        self.woken, self.stopped = threading.Event(), threading.Event()
        self.renewed = time.monotonic()
        self.eye = threading.Thread(target=self.keep, name="webhooks", daemon=True)

    def start(self):
        self.eye.start()
        return self

    def put_down(self):
        """Begins no more attempts; those that are under way end and are written down."""
        self.stopped.set()
        for pool in self.pools.values():
            pool.shutdown()
        self.woken.set()
        self.eye.join()

    def keep(self):
        while not self.stopped.is_set() or any(self.runs.values()):
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
            sending.renew([run.holder for run in self.under_way()])
            session.commit()
        for quick in (True, False):
            free = self.threads - len(self.runs[quick])
            if free and not self.stopped.is_set():
                self.begin(quick, free)

    def begin(self, quick, free):
        holder = f"{self.name}-{next(self.numbers)}"  # never used again: a lease that was lost stays lost
        serving = [run.host for run in self.under_way()]
        claimed = sending.claim(holder, quick=quick, most=free, serving=serving)
        session.commit()
        for subscription_id, host in claimed:
            run = Run(subscription_id, host, holder, self.context, quick)
            self.runs[quick].add(run)
            self.pools[quick].submit(self.carry, run, quick)

    def carry(self, run, quick):
        try:
            with self.app.app_context():
                run.serve(self.stopped.is_set)
        except Exception as error:
            log_failure(log, "webhook_failed", error, subscription_id=run.subscription_id)  # its lease ends by itself
        finally:
            run.line.close()
            self.runs[quick].discard(run)
            self.woken.set()

    def under_way(self):
        return [*self.runs[True], *self.runs[False]]


sender: Sender | None = None
