"""Looking up where a sandbox runs."""

import asyncio
from dataclasses import replace

from panel.services.microvms.read import Route
from worker.sandbox_router.routes import RouteTable

RUNNING_ROUTE = Route(
    **dict.fromkeys(Route.__dataclass_fields__, "x") | {"state": "running"},
)


def find_nothing(_label):
    return None


def test_ended_sandbox_is_refused_immediately():
    states = iter(["running", "destroying", "running"])
    table = RouteTable(lambda sandbox_id: replace(RUNNING_ROUTE, state=next(states)), find_nothing)

    async def find_three_times():
        return [await table.find_running("s") for _ in range(3)]

    assert [route is not None for route in asyncio.run(find_three_times())] == [True, False, True]


def test_unknown_sandbox_is_looked_up_once():
    lookups = []
    table = RouteTable(lookups.append, find_nothing)

    async def find_three_times():
        return [await table.find_running("s") for _ in range(3)]

    assert asyncio.run(find_three_times()) == [None] * 3
    assert lookups == ["s"]


def test_unknown_connector_is_looked_up_once_and_known_one_each_time():
    rows, lookups = {"shop": ("s", 80)}, []

    def find_connector(label):
        lookups.append(label)
        return rows.get(label)

    table = RouteTable(find_nothing, find_connector)

    async def find_all():
        return [await table.find_connector_port(label) for label in ("none", "none", "shop", "shop")]

    assert asyncio.run(find_all()) == [None, None, ("s", 80), ("s", 80)]
    assert lookups == ["none", "shop", "shop"], "a removed connector is refused immediately"
