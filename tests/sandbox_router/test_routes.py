"""Looking up where a sandbox runs."""

import asyncio
import time
from dataclasses import replace

import pytest

from panel.services.microvms.read import Route
from worker.sandbox_router import routes
from worker.sandbox_router.routes import RouteTable

RUNNING_ROUTE = Route(
    **dict.fromkeys(Route.__dataclass_fields__, "x") | {"state": "running"},
)


def find_nothing(_label):
    return None


def test_ended_sandbox_is_refused_immediately():
    states = iter(["running", "destroying", "running"])
    table = RouteTable(lambda sandbox_id: replace(RUNNING_ROUTE, state=next(states)), find_nothing, set)

    async def find_three_times():
        return [await table.find_running("s") for _ in range(3)]

    assert [route is not None for route in asyncio.run(find_three_times())] == [True, False, True]


def test_unknown_sandbox_is_looked_up_once():
    lookups = []
    table = RouteTable(lookups.append, find_nothing, set)

    async def find_three_times():
        return [await table.find_running("s") for _ in range(3)]

    assert asyncio.run(find_three_times()) == [None] * 3
    assert lookups == ["s"]


def test_unknown_connector_is_looked_up_once_and_known_one_each_time():
    rows, lookups = {"shop": ("s", 80)}, []

    def find_connector(label):
        lookups.append(label)
        return rows.get(label)

    table = RouteTable(find_nothing, find_connector, set)

    async def find_all():
        return [await table.find_connector_port(label) for label in ("none", "none", "shop", "shop")]

    assert asyncio.run(find_all()) == [None, None, ("s", 80), ("s", 80)]
    assert lookups == ["none", "shop", "shop"], "a removed connector is refused immediately"


class StartingSandboxes:
    """Sandboxes that are being started until they are removed from `ids`."""

    def __init__(self, *ids):
        self.ids, self.queries = set(ids), []
        self.error = None

    def find_route(self, sandbox_id):
        return replace(RUNNING_ROUTE, sandbox_id=sandbox_id, state="starting" if sandbox_id in self.ids else "running")

    def find_starting(self, sandbox_ids):
        self.queries.append(set(sandbox_ids))
        if self.error:
            raise self.error
        return self.ids & set(sandbox_ids)


def test_all_who_wait_for_starts_share_one_query_and_are_woken_soon():
    sandboxes = StartingSandboxes("a", "b")
    table = RouteTable(sandboxes.find_route, find_nothing, sandboxes.find_starting)

    async def check():
        waiting = [asyncio.create_task(table.find_running(sandbox_id)) for sandbox_id in "aabb"]
        await asyncio.sleep(4 * routes.START_POLL_INTERVAL_SECONDS)
        assert all(query == {"a", "b"} for query in sandboxes.queries)
        assert 1 <= len(sandboxes.queries) <= 4
        sandboxes.ids.remove("a")
        started_at = time.monotonic()
        assert [(await task).sandbox_id for task in waiting[:2]] == ["a", "a"]
        assert time.monotonic() - started_at < 0.5
        assert not waiting[2].done()
        waiting[2].cancel()
        sandboxes.ids.remove("b")
        assert (await waiting[3]).state == "running"
        await asyncio.sleep(2 * routes.START_POLL_INTERVAL_SECONDS)
        assert (table.waiters, table.polling) == ({}, None)

    asyncio.run(check())


def test_failed_query_reaches_who_waits_and_the_next_one_works():
    sandboxes = StartingSandboxes("a")
    table = RouteTable(sandboxes.find_route, find_nothing, sandboxes.find_starting)

    async def check():
        sandboxes.error = OSError("away")
        with pytest.raises(OSError, match="away"):
            await table.find_running("a")
        sandboxes.error = None
        sandboxes.ids.clear()
        assert (await table.find_running("a")).state == "running"

    asyncio.run(check())
