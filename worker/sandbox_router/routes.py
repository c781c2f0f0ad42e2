"""Which sandboxes run, and where: the rows of the database, read by a few threads.

Every request reads the row, because a client that has just ended or paused a sandbox must not reach it any more. Only
ids and labels that do not exist are remembered for a moment.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from panel.services.microvms.read import Route

LOOKUP_THREADS = 4
CACHE_SECONDS = 1.0
MAX_CACHED_ROUTES = 10_000
START_SECONDS = 60.0
"""Seconds that a request waits for a sandbox that is being started."""

START_POLL_INTERVAL_SECONDS = 0.25


class RouteTable:
    def __init__(
        self, find_route: Callable[[str], Route | None], find_connector: Callable[[str], tuple[str, int] | None]
    ) -> None:
        """Both are called in a thread. `find_connector` returns the sandbox and the port to which a label leads."""
        self.find_route, self.find_connector = find_route, find_connector
        self.executor = ThreadPoolExecutor(LOOKUP_THREADS, "sandbox-routes")
        self.cache: dict[str, tuple[float, Route | None]] = {}
        """Ids of sandboxes that do not exist."""
        self.unknown_labels: dict[str, float] = {}
        """Labels that no connector has, with the time of the lookup."""
        self.polls: dict[str, asyncio.Task[Route | None]] = {}

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
        """Return where the sandbox runs, or None. One that is being started is waited for."""
        deadline = time.monotonic() + START_SECONDS
        route = await self.find(sandbox_id)
        while route is not None and route.state == "starting":
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(START_POLL_INTERVAL_SECONDS)
            route = await self.poll(sandbox_id)
        return route if route is not None and route.state == "running" else None

    async def find(self, sandbox_id: str) -> Route | None:
        read_at, route = self.cache.get(sandbox_id, (float("-inf"), None))
        if time.monotonic() - read_at <= CACHE_SECONDS:
            return route
        return await self.read_route(sandbox_id)

    async def poll(self, sandbox_id: str) -> Route | None:
        """Read the row. Clients that wait for the same sandbox share the query."""
        task = self.polls.get(sandbox_id)
        if task is None:
            task = self.polls[sandbox_id] = asyncio.create_task(self.read_route(sandbox_id))
            task.add_done_callback(lambda _task: self.polls.pop(sandbox_id, None))
        return await asyncio.shield(task)

    async def read_route(self, sandbox_id: str) -> Route | None:
        read_at = time.monotonic()
        route = await asyncio.get_running_loop().run_in_executor(self.executor, self.find_route, sandbox_id)
        if len(self.cache) >= MAX_CACHED_ROUTES:
            self.cache.clear()
        if route is None:
            self.cache[sandbox_id] = read_at, route
        return route

    def forget(self, sandbox_id: str) -> None:
        """Read the row again for the next request."""
        self.cache.pop(sandbox_id, None)
