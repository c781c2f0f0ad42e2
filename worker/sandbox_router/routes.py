"""Which sandboxes run, and where: the rows of the database, read by a few threads.

Every request reads the row, because a client that has just ended or paused a sandbox must not reach it any more. Only
ids and labels that do not exist are remembered for a moment.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from panel.services.microvms.read import Route
from worker.sandbox_router.errors import build_unreachable

LOOKUP_THREADS = 4
CACHE_SECONDS = 1.0
MAX_CACHED_ROUTES = 10_000
START_SECONDS = 60.0
"""Seconds that a request waits for a sandbox that is being started."""

START_POLL_INTERVAL_SECONDS = 0.05
"""Seconds between two queries for the sandboxes that are being started, one query for all of them."""


class RouteTable:
    def __init__(
        self,
        find_route: Callable[[str], Route | None],
        find_connector: Callable[[str], tuple[str, int] | None],
        find_starting: Callable[[Collection[str]], set[str]],
    ) -> None:
        """All are called in a thread. `find_connector` returns the sandbox and the port to which a label leads,
        `find_starting` those of the sandboxes that are being started."""
        self.find_route, self.find_connector, self.find_starting = find_route, find_connector, find_starting
        self.executor = ThreadPoolExecutor(LOOKUP_THREADS, "sandbox-routes")
        self.cache: dict[str, tuple[float, Route | None]] = {}
        """Ids of sandboxes that do not exist."""
        self.unknown_labels: dict[str, float] = {}
        """Labels that no connector has, with the time of the lookup."""
        self.waiters: dict[str, set[asyncio.Future[None]]] = {}
        """Who waits for sandboxes that are being started."""
        self.polling: asyncio.Task[None] | None = None

    async def find_connector_port(self, label: str) -> tuple[str, int] | None:
        """Return the sandbox and the port to which a connector leads, or None."""
        read_at = time.monotonic()
        if read_at - self.unknown_labels.get(label, float("-inf")) <= CACHE_SECONDS:
            return None
        row = await asyncio.get_running_loop().run_in_executor(self.executor, self.find_connector, label)
        if row is None:
            if len(self.unknown_labels) >= MAX_CACHED_ROUTES:
                self.unknown_labels.clear()
            self.unknown_labels[label] = read_at
        return row

    async def find_running(self, sandbox_id: str) -> Route | None:
        """Return where the sandbox runs, or None. One that is being started is waited for. Raises `RequestRefused` if
        that takes long."""
        route = await self.find(sandbox_id)
        try:
            async with asyncio.timeout(START_SECONDS):
                while route is not None and route.state == "starting":
                    await self.wait_until_started(sandbox_id)
                    route = await self.read_route(sandbox_id)
        except TimeoutError:
            raise build_unreachable(sandbox_id) from None
        return route if route is not None and route.state == "running" else None

    async def find(self, sandbox_id: str) -> Route | None:
        read_at, route = self.cache.get(sandbox_id, (float("-inf"), None))
        if time.monotonic() - read_at <= CACHE_SECONDS:
            return route
        return await self.read_route(sandbox_id)

    async def wait_until_started(self, sandbox_id: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self.waiters.setdefault(sandbox_id, set()).add(waiter)
        if self.polling is None:
            self.polling = asyncio.create_task(self.poll_started())
        try:
            await waiter
        finally:
            others = self.waiters.get(sandbox_id, set())
            others.discard(waiter)
            if not others:
                self.waiters.pop(sandbox_id, None)

    async def poll_started(self) -> None:
        """Wake those who wait for sandboxes that are not being started any more, until nobody waits."""
        loop = asyncio.get_running_loop()
        try:
            while self.waiters:
                await asyncio.sleep(START_POLL_INTERVAL_SECONDS)
                starting = await loop.run_in_executor(self.executor, self.find_starting, list(self.waiters))
                self.wake_waiters(self.waiters.keys() - starting)
        except Exception as error:
            self.wake_waiters(set(self.waiters), error)
        finally:
            self.polling = None

    def wake_waiters(self, sandbox_ids: set[str], error: Exception | None = None) -> None:
        for sandbox_id in sandbox_ids:
            for waiter in self.waiters.pop(sandbox_id):
                if waiter.done():
                    continue
                if error:
                    waiter.set_exception(error)
                else:
                    waiter.set_result(None)

    async def read_route(self, sandbox_id: str) -> Route | None:
        read_at = time.monotonic()
        route = await asyncio.get_running_loop().run_in_executor(self.executor, self.find_route, sandbox_id)
        if len(self.cache) >= MAX_CACHED_ROUTES:
            self.cache.clear()
        if route is None:
            self.cache[sandbox_id] = read_at, route
        return route

    def forget_route(self, sandbox_id: str) -> None:
        """Read the row again for the next request."""
        self.cache.pop(sandbox_id, None)
