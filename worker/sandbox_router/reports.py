"""Collecting the reports of all running sandboxes, also of those that no client uses: their channels stay open."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog
from sqlalchemy.exc import SQLAlchemyError

from panel.core import clock
from panel.services.microvms.guest_reports import LogRecord
from worker.nodes.base import NodeError
from worker.sandbox_guest.identity_stream import exchange_documents
from worker.sandbox_router.channels import UNAVAILABLE_ERRORS, ChannelPool, SandboxChannel
from worker.sandbox_router.report_checks import MAX_REPORT_BYTES, ReportInvalid, read_report
from worker.sandbox_router.report_writer import ReportWriter
from worker.sandbox_router.routes import RouteTable

log = structlog.get_logger()

SAMPLE_INTERVAL_SECONDS = 15.0
REPORT_INTERVAL_SECONDS = 1.0
"""Seconds between two requests to a guest, however much it has to report."""

ANSWER_SECONDS = 15.0
"""Seconds that an answer may take longer than it was asked to wait."""

ENTRY_BURST, ENTRIES_PER_SECOND = 300, 2.0
"""Entries of a sandbox that are accepted at once, and how fast that allowance grows again."""

KEEP_INTERVAL_SECONDS = 10.0
MAX_PERMANENT_CHANNELS = 5000
MAX_KEEPING = 32
"""Channels that are being opened for reports at the same time."""

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 30.0, 900.0
"""Seconds until a guest without a channel is tried again: the first pause, which doubles each time, and the longest."""


class EntryAllowance:
    """How many entries of one sandbox are accepted."""

    def __init__(self) -> None:
        self.available, self.updated_at = float(ENTRY_BURST), time.monotonic()

    def accept_entries(self, count: int) -> int:
        """Return how many of the entries are accepted, and count them."""
        now = time.monotonic()
        self.available = min(ENTRY_BURST, self.available + ENTRIES_PER_SECOND * (now - self.updated_at))
        self.updated_at = now
        accepted = min(count, int(self.available))
        self.available -= accepted
        return accepted


class ReportCollector:
    def __init__(
        self,
        channels: ChannelPool,
        routes: RouteTable,
        writer: ReportWriter,
        list_running: Callable[[int], Sequence[str]],
        sample_interval: float = SAMPLE_INTERVAL_SECONDS,
        keep_interval: float = KEEP_INTERVAL_SECONDS,
    ) -> None:
        """`list_running` is called in a thread and returns the ids of running sandboxes, at most so many."""
        self.channels, self.routes, self.writer, self.list_running = channels, routes, writer, list_running
        self.sample_interval, self.keep_interval = sample_interval, keep_interval
        self.executor = ThreadPoolExecutor(4, "sandbox-reports")
        self.followers: dict[str, asyncio.Task[None]] = {}
        self.allowances: dict[str, EntryAllowance] = {}
        self.retries: dict[str, tuple[float, float]] = {}
        """Sandbox → when its channel is tried again, and the pause after that."""
        self.keeping: dict[str, asyncio.Task[None]] = {}
        channels.on_ready = self.start_follower

    async def run(self) -> None:
        """Collect until the task is cancelled."""
        writing = asyncio.create_task(self.writer.run())
        try:
            while True:
                try:
                    self.keep_channels(await self.find_running())
                except SQLAlchemyError as error:
                    log.warning("sandboxes_unknown", error=str(error))
                await asyncio.sleep(self.keep_interval)
        finally:
            for task in (writing, *self.followers.values(), *self.keeping.values()):
                task.cancel()

    async def find_running(self) -> set[str]:
        ids = await asyncio.get_running_loop().run_in_executor(self.executor, self.list_running, MAX_PERMANENT_CHANNELS)
        return set(ids)

    def keep_channels(self, running_ids: set[str]) -> None:
        """Let the channels of these sandboxes stay open, and open those that are missing."""
        self.channels.permanent_ids = running_ids
        for state in (self.retries, self.allowances):
            for sandbox_id in state.keys() - running_ids:
                del state[sandbox_id]
        now = time.monotonic()
        for sandbox_id in running_ids - self.keeping.keys():
            channel = self.channels.channels.get(sandbox_id)
            is_due = self.retries.get(sandbox_id, (0.0, 0.0))[0] <= now
            if (channel is None or not channel.is_ready) and is_due and len(self.keeping) < MAX_KEEPING:
                self.keeping[sandbox_id] = asyncio.create_task(self.open_channel(sandbox_id))

    async def open_channel(self, sandbox_id: str) -> None:
        try:
            route = await self.routes.read_route(sandbox_id)
            if route is not None and route.state == "running":
                await self.channels.open_permanently(route)
            self.retries.pop(sandbox_id, None)
        except (*UNAVAILABLE_ERRORS, NodeError, SQLAlchemyError):
            pause = self.retries.get(sandbox_id, (0.0, FIRST_RETRY_SECONDS))[1]
            self.retries[sandbox_id] = time.monotonic() + pause, min(2 * pause, MAX_RETRY_SECONDS)
        finally:
            del self.keeping[sandbox_id]

    def start_follower(self, channel: SandboxChannel) -> None:
        """Collect the reports of a session that has just begun."""
        sandbox_id = channel.route.sandbox_id
        if previous := self.followers.get(sandbox_id):
            previous.cancel()
        task = self.followers[sandbox_id] = asyncio.create_task(self.collect(channel))
        task.add_done_callback(lambda done: self.forget_follower(sandbox_id, done))

    def forget_follower(self, sandbox_id: str, task: asyncio.Task[None]) -> None:
        if self.followers.get(sandbox_id) is task:
            del self.followers[sandbox_id]
        if not task.cancelled() and (error := task.exception()):
            log.error("sandbox_reports_failed", sandbox=sandbox_id, exc_info=error)

    async def collect(self, channel: SandboxChannel) -> None:
        """Ask for reports until the session ends or the guest gives none."""
        mux, sandbox_id, microvm_id = channel.mux, channel.route.sandbox_id, channel.route.machine_id
        assert mux is not None
        after, sample_at, dropped_count = 0, time.monotonic(), 0
        while channel.is_ready and channel.mux is mux:
            seconds = sample_at - time.monotonic()
            is_sample_due = seconds <= 0
            request = {"after": after, "wait": max(0.0, seconds), "metrics": is_sample_due}
            try:
                async with asyncio.timeout(request["wait"] + ANSWER_SECONDS):
                    body = await exchange_documents(mux, {"report": request}, MAX_REPORT_BYTES)
                report = read_report(body, microvm_id, after)
            except (ReportInvalid, *UNAVAILABLE_ERRORS) as error:
                # An image that is older than reports answers with an error. The next session asks again.
                log.info("sandbox_reports_ended", sandbox=sandbox_id, error=repr(error))
                return
            if is_sample_due:
                sample_at = time.monotonic() + self.sample_interval
            lost_count = report.latest_number - after - len(report.entries) - report.invalid_count if after else 0
            after = report.latest_number
            allowance = self.allowances.setdefault(sandbox_id, EntryAllowance())
            accepted = allowance.accept_entries(len(report.entries))
            dropped_count += max(0, lost_count) + report.invalid_count + len(report.entries) - accepted
            entries = report.entries[:accepted]
            if dropped_count and allowance.accept_entries(1):
                entries.append(build_drop_entry(microvm_id, dropped_count))
                dropped_count = 0
            self.writer.add(type(report)(entries, after, 0, report.sample if is_sample_due else None))
            await asyncio.sleep(REPORT_INTERVAL_SECONDS)


def build_drop_entry(microvm_id: str, count: int) -> LogRecord:
    fields = {"count": str(count)}
    return LogRecord(microvm_id, clock.now(), "warn", "router", "Entries of the log were dropped", fields)
