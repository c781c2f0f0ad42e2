"""How fast backup destinations grow: sizes by day, forecast, pages."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import BackupDestinationSize
from panel.services import backup_destinations, backup_growth
from tests.support.backups import add_row, destination, folder  # noqa: F401  (fixtures)
from worker.tasks.backup_destinations import record_sizes

GIB = 1024**3


def add_history(destination, days, daily):
    today = clock.now().date()
    for age in range(1, days):
        values = {"stored_bytes": (100 - age) * daily, "used_bytes": (200 - age) * daily}
        session.add(BackupDestinationSize(destination_id=destination.id, day=today - timedelta(days=age), **values))
    session.merge(
        BackupDestinationSize(
            destination_id=destination.id, day=today, stored_bytes=100 * daily, used_bytes=200 * daily
        )
    )
    session.commit()


def get_growth(destination):
    return backup_growth.map_growth([destination])[destination.id]


def test_sizes_are_recorded_once_a_day_and_purged(destination, add_row):
    add_row("nightly", size=5)
    old = clock.now().date() - timedelta(days=backup_growth.RETENTION_DAYS + 1)
    session.add(BackupDestinationSize(destination_id=destination.id, day=old, stored_bytes=1))
    for _ in range(2):
        record_sizes()
    (row,) = session.query(BackupDestinationSize).all()
    assert (row.day, row.stored_bytes, row.used_bytes) == (
        clock.now().date(),
        5,
        destination.capacity - destination.free,
    )
    used_bytes = row.used_bytes
    destination.capacity = destination.free = None
    destination.status = "unavailable"
    record_sizes()
    assert row.used_bytes == used_bytes, "what a failed check does not report"
    destination.status = "available"
    record_sizes()
    assert row.used_bytes is None


@pytest.mark.parametrize(
    ("days", "free", "weekly", "days_left"), [(10, 20, 7, 20), (10, 9000, 7, None), (3, 20, None, None)]
)
def test_forecast_needs_history_and_growth(destination, days, free, weekly, days_left):
    destination.capacity, destination.free = (200 + free) * GIB, free * GIB
    add_history(destination, days, GIB)
    growth = get_growth(destination)
    assert (growth.is_used_space, len(growth.sizes), growth.sizes[-1]) == (True, days, 200 * GIB)
    assert growth.weekly == (weekly and weekly * GIB)
    assert growth.days_left == days_left


def test_growth_without_known_capacity_is_of_backups(destination):
    destination.capacity = destination.free = None
    add_history(destination, 5, GIB)
    session.delete(session.get(BackupDestinationSize, (destination.id, clock.now().date() - timedelta(days=2))))
    session.commit()
    growth = get_growth(destination)
    assert growth.sizes == [96 * GIB, 97 * GIB, None, 99 * GIB, 100 * GIB]
    assert (growth.is_used_space, growth.weekly, growth.days_left) == (False, 7 * GIB, None)


def test_curve_of_unavailable_destination_stays(destination):
    add_history(destination, 5, GIB)
    destination.status, destination.capacity, destination.free = "unavailable", None, None
    growth = get_growth(destination)
    assert (growth.is_used_space, growth.weekly, growth.days_left) == (True, 7 * GIB, None)


def test_pages_show_growth(browser_as, destination):
    browser = browser_as("admin")
    paths = "/admin/backup-destinations", f"/admin/backup-destinations/{destination.id}"
    assert all("per week" not in browser.get(path).text for path in paths)
    destination.capacity, destination.free = 220 * GIB, 20 * GIB
    add_history(destination, 10, GIB)
    for path in paths:
        page = browser.get(path).text
        for text in ("Grows by 7 GiB per week", "Full in 20 days"):
            assert text in page, (path, text)
    assert "Used space" in page
    assert 'class="area-chart"' in page


def test_sizes_go_with_their_destination(destination):
    add_history(destination, 2, GIB)
    backup_destinations.delete(destination)
    session.commit()
    assert session.query(BackupDestinationSize).count() == 0
