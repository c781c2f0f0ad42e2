"""Looking up where a sandbox runs."""

import asyncio
from dataclasses import replace

from panel.services.microvms.read import Route
from worker.sandbox_router.routes import RouteTable

RUNNING_ROUTE = Route(
    **dict.fromkeys(Route.__dataclass_fields__, "x") | {"state": "running"},
)


def test_ended_sandbox_is_refused_immediately():
    states = iter(["running", "destroying", "running"])
    table = RouteTable(lambda sandbox_id: replace(RUNNING_ROUTE, state=next(states)))

    async def find_three_times():
        return [await table.find_running("s") for _ in range(3)]

    assert [route is not None for route in asyncio.run(find_three_times())] == [True, False, True]


def test_unknown_sandbox_is_looked_up_once():
    lookups = []
    table = RouteTable(lookups.append)

    async def find_three_times():
        return [await table.find_running("s") for _ in range(3)]

    assert asyncio.run(find_three_times()) == [None] * 3
    assert lookups == ["s"]
