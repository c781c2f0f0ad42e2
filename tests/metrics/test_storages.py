"""How full storages were: what a poll stores of them, their charts and forecasts."""

from datetime import UTC, datetime, timedelta

import pytest
from lxml import html
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Storage, StorageMetric
from panel.models.metrics import STORAGE_SLOTS_BY_STEP
from panel.services import capacity_forecast, hypervisors
from panel.services.metrics.storages import record_storages
from panel.web import charts
from worker.sync import node_sync

GiB, MIB_PER_GIB, SECONDS_PER_DAY = 1024**3, 1024, 86400


@pytest.fixture
def storage(cast, node):
    """The storage of the cast's hypervisor, as probed."""
    node_sync.probe(cast.node.id)
    session.expire_all()
    return session.scalars(select(Storage)).one()


def list_rows(step):
    query = select(StorageMetric).where(StorageMetric.step == step).order_by(StorageMetric.at)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def add_days(storage, used_gib, allocated_gib=(), capacity_gib=100):
    """Store the values of the last days; the last ones are those of today."""
    today = int(clock.now().timestamp()) // SECONDS_PER_DAY
    session.query(StorageMetric).delete()
    for number, size in enumerate(used_gib):
        day = today - len(used_gib) + 1 + number
        row = StorageMetric(storage_id=storage.id, step=SECONDS_PER_DAY, slot=day % 366, at=day * SECONDS_PER_DAY)
        row.capacity, row.used_space = capacity_gib * MIB_PER_GIB, size * MIB_PER_GIB
        row.allocated = (allocated_gib or used_gib)[number] * MIB_PER_GIB
        session.add(row)
    session.commit()


def test_probe_stores_last_values_of_each_step(cast, storage, fake_time, node, queries):
    cast.instance()
    session.query(StorageMetric).delete()
    session.commit()
    queries.clear()
    node_sync.probe(cast.node.id)
    assert len([text for text in queries if text.startswith("INSERT INTO storage_metrics")]) == 1
    storage = session.get(Storage, storage.id, populate_existing=True)
    for step in STORAGE_SLOTS_BY_STEP:
        (row,) = list_rows(step)
        assert row.at == fake_time.wall.timestamp() // step * step
        assert row.capacity == pytest.approx(storage.capacity / 1024**2)
        assert row.used_space == pytest.approx((storage.capacity - storage.free) / 1024**2)
        assert row.allocated == 10 * MIB_PER_GIB
    storage.free -= 5 * GiB
    fake_time.advance(600)
    record_storages(cast.node.id)
    (row,) = list_rows(900)
    assert row.used_space == pytest.approx((storage.capacity - storage.free) / 1024**2)
    fake_time.advance(600)
    record_storages(cast.node.id)
    assert [len(list_rows(step)) for step in STORAGE_SLOTS_BY_STEP] == [2, 1, 1]


def test_rows_of_a_storage_are_limited_and_removed_with_it(cast, storage, fake_time):
    for _ in range(2 * STORAGE_SLOTS_BY_STEP[900]):
        fake_time.advance(900)
        record_storages(cast.node.id)
    rows = list_rows(900)
    assert len(rows) == STORAGE_SLOTS_BY_STEP[900]
    assert rows[-1].at - rows[0].at == 900 * (len(rows) - 1)
    hypervisors.delete_storage(storage)
    session.expire_all()
    assert [list_rows(step) for step in STORAGE_SLOTS_BY_STEP] == [[]] * 3


def test_storage_that_cannot_be_used_is_not_recorded(cast, storage):
    storage.capacity = storage.free = 0
    session.query(StorageMetric).delete()
    record_storages(cast.node.id)
    assert session.scalars(select(StorageMetric)).all() == []


def test_storage_page_shows_charts_and_forecast(browser_as, storage):
    add_days(storage, [10, 20, 30, 40, 50])
    path = f"/admin/hypervisors/storages/{storage.id}/metrics"
    page = html.fromstring(browser_as("admin").get(f"{path}?range=30d").text)
    assert page.xpath("//section[.//div[@class='chart']]/@aria-label") == ["Disk space", "Allocated to disks"]
    assert [cell.text for cell in page.xpath("//tr[@data-metric='used_space']/td")] == ["50 GiB", "30 GiB", "50 GiB"]
    assert "Full in 5 days" in page.text_content()
    assert "The last value of every day." in page.text_content()
    assert [link.text for link in page.xpath("//nav[@aria-label='Time range']/a")] == [
        "1 day",
        "1 week",
        "30 days",
        "1 year",
    ]
    data = browser_as("admin").get(page.xpath("//@data-charts")[0]).json
    assert data["values"]["used_space"] == [10240, 20480, 30720, 40960, 51200]
    assert data["maxima"]["used_space"] == pytest.approx(storage.capacity / 1024**2)
    assert len(data["at"]) == 5, "no gaps"
    listed = browser_as("admin").get(f"/admin/hypervisors/{storage.hypervisor_id}").text
    assert listed.count("Full in 5 days") == 2
    assert path in listed


def test_storage_page_without_values_says_so(browser_as, storage):
    session.query(StorageMetric).delete()
    session.commit()
    page = html.fromstring(browser_as("admin").get(f"/admin/hypervisors/storages/{storage.id}/metrics?range=no").text)
    assert page.xpath("//p[@data-no-data and not(@hidden)]")
    assert page.xpath("//nav[@aria-label='Time range']/a[@aria-current='true']/text()") == ["1 week"]
    assert {cell.text for cell in page.xpath("//tr[@data-metric]/td")} == {charts.NO_VALUE}


def test_charts_of_storages_are_for_operators(browser_as, storage):
    for ending in ("", "/data"):
        path = f"/admin/hypervisors/storages/{storage.id}/metrics{ending}"
        assert browser_as("owner").get(path).status_code == 403
        assert browser_as("admin").get(path.replace(storage.id, "x")).status_code == 404


@pytest.mark.parametrize(
    ("used_gib", "allocated_gib", "overcommit", "days"),
    [
        ([10, 20, 30, 40], [], 1, {"used_space": 6, "allocated": 6}),
        ([10, 20, 30], [], 1, {}),
        ([10] * 5, [20, 40, 60, 80, 100], 1, {"allocated": 0}),
        ([10] * 5, [20, 40, 60, 80, 100], 2, {"allocated": 5}),
        ([40, 30, 20, 10], [], 1, {}),
        ([10.1, 10.2, 10.3, 10.4], [], 1, {}),
    ],
)
def test_forecast_follows_the_growth_of_the_last_days(storage, used_gib, allocated_gib, overcommit, days):
    storage.overcommit = overcommit
    add_days(storage, used_gib, allocated_gib)
    forecast = capacity_forecast.list_storage_days_left([storage])
    assert forecast == {(storage.id, name): count for name, count in days.items()}


def test_forecast_ignores_days_of_the_previous_round(storage):
    """The ring buffer still has rows of a year ago."""
    add_days(storage, [10, 20, 30, 40])
    for row in list_rows(SECONDS_PER_DAY):
        row.at -= 366 * SECONDS_PER_DAY
    session.commit()
    assert capacity_forecast.list_storage_days_left([storage]) == {}


def test_forecasts_of_many_storages_take_one_query(cast, storage, queries):
    for number in range(3):
        hypervisors.create_storage(cast.node, name=f"more-{number}", path=f"/srv/{number}")
    storages = session.scalars(hypervisors.select_storages(cast.node)).all()
    queries.clear()
    capacity_forecast.list_storage_days_left(storages)
    assert len(queries) == 1


def test_daily_step_begins_at_midnight_utc(storage):
    (row,) = list_rows(SECONDS_PER_DAY)
    begin = datetime.fromtimestamp(row.at, UTC)
    assert (begin.hour, begin.minute) == (0, 0)
    assert clock.now() - begin < timedelta(days=1)
