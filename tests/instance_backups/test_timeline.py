"""The timeline of a customer's backups."""

from datetime import timedelta
from itertools import pairwise

import lxml.html
import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import InstanceBackup
from panel.pages.shared.backup_timeline import MAX_LANES, TimelineLane, TimelinePoint, place_points
from panel.schemas.backup_policies import DEFAULTS
from panel.services import backup_policies
from tests.support.cast import UNKNOWN_ID
from tests.support.html_pages import PARTIAL_HEADERS


@pytest.fixture
def load(browser_as):
    """Return a function that returns the timeline of a page, or None."""

    def load_page(path, **options):
        document = lxml.html.fromstring(browser_as("owner").get(path, **options).text)
        return next(iter(document.xpath("//section[@class='timeline']")), None)

    return load_page


def list_texts(timeline):
    return [" ".join(item.text_content().split()) for item in timeline.xpath(".//ol/li")]


def test_positions_are_in_order_and_even_in_the_last_weeks():
    now = clock.now()
    ages = (0, 1, 2, 30, 365)
    points = [TimelinePoint(InstanceBackup(created_at=now - timedelta(days=age)), "full") for age in ages]
    timeline = place_points([TimelineLane("a", points, now + timedelta(days=1))], now, is_shortened=False)
    assert timeline.is_compressed
    positions = [timeline.lanes[0].next_position, *(point.position for point in points)]
    assert positions == sorted(positions, reverse=True)
    assert (positions[0], positions[-1]) == (97, 3)
    distances = [left - right for left, right in pairwise(positions)]
    assert distances[0] == pytest.approx(distances[1], rel=0.01)
    assert distances[1] == pytest.approx(distances[2], rel=0.1)
    assert timeline.ticks[0] == (now, points[0].position)
    assert timeline.ticks[1][1] == 3
    spots = sorted(position for _, position in timeline.ticks)
    assert all(right - left >= 24 for left, right in pairwise(spots))


def test_tab_shows_kinds_protection_and_next_backup(load, add_row, machine, cast):
    tab = f"/instances/{machine.id}/backups"
    assert load(tab) is None
    add_row("a", instance_id=machine.id, protected=True, age=3)
    add_row("b", instance_id=machine.id, backup_type="incremental", age=2)
    add_row("c", instance_id=machine.id, status="failed", age=1)
    add_row("d", instance_id=machine.id, damaged=True)
    policy = backup_policies.create(cast.owner, name="nightly", **DEFAULTS | {"retention_count": 3})
    backup_policies.attach(policy, machine)
    session.commit()
    timeline = load(tab)
    texts = list_texts(timeline)
    assert [text.split(", ")[0] for text in texts] == ["Next backup", "d", "c", "b", "a"]
    assert [text.rpartition(", ")[2] for text in texts[1:]] == ["Damaged", "Failed", "Incremental", "protected"]
    titles = [" ".join(title.text_content().split()) for title in timeline.xpath(".//svg/svg/title")]
    assert sorted(titles) == sorted(texts), "the drawing says the same"
    order = [title.split(",")[0] for title in titles]
    assert order == ["b", "a", "c", "d", "Next backup"], "nothing covers protected and unusable ones"
    assert "closer together" not in timeline.text_content(), "the oldest is 3 days old"
    assert len(timeline.xpath(".//*[@class='timeline-ring']")) == 2, "the point and the legend"
    assert not timeline.xpath(".//*[@style]")


def test_list_has_a_row_for_each_instance_and_follows_filters(load, add_row, machine):
    for number in range(MAX_LANES + 1):
        add_row(f"b{number}", instance_id=f"{UNKNOWN_ID[:-1]}{number}", recorded_name=f"Shop {number}")
    add_row("newest", instance_id=machine.id, backup_type="incremental")
    add_row("foreign", caller="outsider")
    timeline = load("/backups")
    assert len(timeline.xpath(".//ol")) == MAX_LANES
    assert list_texts(timeline)[0].startswith("newest, ")
    assert "foreign" not in timeline.text_content()
    assert "Only the newest backups" in timeline.text_content()
    filtered = load("/backups?backup_type=incremental", headers=PARTIAL_HEADERS)
    assert [text.split(",")[0] for text in list_texts(filtered)] == ["newest"]
    assert "Only the newest backups" not in filtered.text_content()
