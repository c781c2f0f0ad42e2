"""Writing reports to the database: in batches, by a thread, so that no stream waits for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog
from sqlalchemy.exc import SQLAlchemyError

from panel.core.database_errors import log_failure
from panel.services.microvms.guest_reports import LogRecord, Sample
from worker.sandbox_router.report_checks import Report

log = structlog.get_logger()

WRITE_INTERVAL_SECONDS = 1.0
MAX_QUEUED_ITEMS = 10_000
"""Entries and samples that wait to be written. What is above is dropped."""

MAX_ITEMS_PER_WRITE = 2000
Write = Callable[[list[LogRecord], list[Sample]], None]


class ReportWriter:
    def __init__(self, write: Write) -> None:
        """`write` is called in a thread. What it raises of the database is logged, once until it succeeds again."""
        self.write = write
        self.executor = ThreadPoolExecutor(1, "sandbox-reports")
        self.entries: list[LogRecord] = []
        self.samples: list[Sample] = []
        self.dropped_count = 0
        self.is_failing = False

    def add(self, report: Report) -> None:
        room = MAX_QUEUED_ITEMS - len(self.entries) - len(self.samples)
        if len(report.entries) + (report.sample is not None) > room:
            self.dropped_count += len(report.entries) + (report.sample is not None)
            return
        self.entries += report.entries
        if report.sample:
            self.samples.append(report.sample)

    async def run(self) -> None:
        """Write until the task is cancelled."""
        while True:
            await asyncio.sleep(WRITE_INTERVAL_SECONDS)
            while self.entries or self.samples:
                await self.write_batch()

    async def write_batch(self) -> None:
        """Write what waits, up to a limit. What cannot be written is dropped."""
        entries, self.entries = self.entries[:MAX_ITEMS_PER_WRITE], self.entries[MAX_ITEMS_PER_WRITE:]
        samples, self.samples = self.samples[:MAX_ITEMS_PER_WRITE], self.samples[MAX_ITEMS_PER_WRITE:]
        try:
            await asyncio.get_running_loop().run_in_executor(self.executor, self.write, entries, samples)
            self.is_failing = False
        except SQLAlchemyError as error:
            self.dropped_count += len(entries) + len(samples)
            if not self.is_failing:
                log_failure(log, "sandbox_reports_dropped", error)
            self.is_failing = True
