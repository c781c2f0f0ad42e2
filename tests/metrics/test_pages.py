"""Charts on the pages, and the small curves of lists."""

import re
from datetime import UTC, datetime

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Instance
from panel.models.metrics import METRIC_NAMES
from panel.services import metrics
from panel.web import charts


@pytest.fixture
def machine_with_metrics(machine, poll_node):
    poll_node(600)
    return machine


def series(*seconds, step=15):
    """Figures at these seconds."""
    names = [name for _, name, _ in charts.CHARTED_FIGURES]
    figures = {f"{name}{ending}": 1.0 for name in names for ending in ("", "_max")}
    points = [{"at": datetime.fromtimestamp(second, UTC), **figures} for second in seconds]
    return {"since": points[0]["at"], "until": points[-1]["at"], "step": step, "points": points}


def test_the_tab_tells_in_words_and_says_where_the_figures_are(browser_as, machine_with_metrics):
    page = browser_as("owner").get(f"/instances/{machine_with_metrics.id}/metrics").text
    assert re.search(r"<th scope=\"row\"><span class=\"line line-1\"></span>Used</th><td>[0-9.]+ %</td>", page)
    assert "Mbit/s</td>" in page
    assert "Show as table" in page
    table = page.partition("Show as table")[2]
    assert re.findall(r'<th scope="col" class="text-end">([^<]+)</th>', table) == [
        "CPU",
        "Memory",
        "Network, received",
        "Network, sent",
        "Disk throughput, read",
        "Disk throughput, written",
        "Disk operations, read",
        "Disk operations, written",
    ]
    data = re.search(r'data-charts="([^"]+)"', page)[1].replace("&amp;", "&")
    body = browser_as("owner").get(data).json
    assert len(body["at"]) == len(body["values"]["cpu_percent"]) > 30
    assert body["most"] == {"cpu_percent": 100, "memory_used": machine_with_metrics.ram}
    assert all(0 < value <= 100 for value in body["values"]["cpu_percent"])
    for address in re.findall(r'(?:href|src)="(/static/[^"]*(?:uPlot|metrics)[^"]*)"', page):
        assert browser_as("owner").get(address).status_code == 200


def test_ranges_are_links(browser_as, machine_with_metrics):
    page = browser_as("owner").get(f"/instances/{machine_with_metrics.id}/metrics?range=1d").text
    assert re.search(r'range=1d"[^>]*aria-current="true">1 day', page)
    assert "range=1w" in page
    assert (
        'aria-current="true">1 h<'
        in browser_as("owner").get(f"/instances/{machine_with_metrics.id}/metrics?range=never").text
    )


def test_a_machine_without_figures_says_so(browser_as, cast):
    instance = cast.instance()
    page = browser_as("owner").get(f"/instances/{instance.id}/metrics").text
    assert "data-none>" in page
    assert "Show as table" not in page


def test_figures_are_for_who_may_see_the_instance(browser_as, machine_with_metrics):
    assert browser_as("outsider").get(f"/instances/{machine_with_metrics.id}/metrics/data").status_code == 404
    assert browser_as("owner").get(f"/admin/instances/{machine_with_metrics.id}/metrics/data").status_code == 403
    assert browser_as("admin").get(f"/admin/instances/{machine_with_metrics.id}/metrics/data").json["at"]


def test_operators_see_what_it_uses_now(browser_as, machine_with_metrics):
    page = browser_as("admin").get(f"/admin/instances/{machine_with_metrics.id}/metrics").text
    assert "Not responding" in page
    assert re.search(r"[0-9.]+ % of 1 core", page)


def test_gaps_stay_gaps(rolled_back_app):
    drawn = charts.plot_data(series(0, 15, 45, 105), {})
    assert drawn["at"] == [0, 15, 45, 60, 105], "one span is bridged, more are a gap"
    assert drawn["values"]["cpu_percent"] == [1, 1, 1, None, 1]
    assert charts.plot_data(series(0, 300, 900, step=300), {})["at"] == [0, 300, 600, 900]


def test_a_long_series_is_a_short_table(rolled_back_app):
    rows = charts.table_rows(series(*range(0, 3600, 15)))
    assert len(rows) == 30
    assert rows[0][0] > rows[-1][0]


def test_lists_have_curves_in_one_query_for_all(browser_as, cast, queries):
    """A page of a hundred costs as many queries as one of one."""

    def listed(who, path):
        queries.clear()
        page = browser_as(who).get(path).text
        return page.count('class="spark"'), len(queries)

    def run(instance):
        instance.deployed, instance.power = True, "on"
        now = int(clock.now().timestamp())
        for before in (900, 600, 300):
            metrics.write({instance.id: dict.fromkeys(METRIC_NAMES, 20.0)}, now - before, 300)
        session.commit()

    pages = {"owner": "/instances?per_page=100", "admin": "/admin/instances?per_page=100"}
    run(cast.instance())
    for who, path in pages.items():
        listed(who, path)
    alone = {who: listed(who, path) for who, path in pages.items()}
    for _ in range(20):
        run(cast.instance())
    many = {who: listed(who, path) for who, path in pages.items()}
    for who in pages:
        assert (alone[who][0], many[who][0]) == (1, 21)
        assert many[who][1] <= alone[who][1]


def test_a_list_without_figures_has_no_column_for_them(browser_as, cast):
    cast.instance()
    assert session.query(Instance).count() == 1
    assert "<th>CPU</th>" not in browser_as("owner").get("/instances").text


def test_a_curve_breaks_where_nothing_was_measured():
    drawn = charts.sparkline([(0.0, 0.1), (0.05, 0.2), (0.5, 0.3), (0.55, 1.0)], "x")
    assert str(drawn).count("M") == 2
