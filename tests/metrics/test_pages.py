"""Charts on the pages, and sparklines in lists."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from lxml import html
from sqlalchemy import select, update

from panel.core import clock
from panel.core.db import session
from panel.models import HypervisorMetric, Instance, Task
from panel.models.metrics import METRIC_NAMES
from panel.services import metrics
from panel.web import charts


@pytest.fixture
def instance_with_metrics(running_instance, poll_node):
    poll_node(600)
    return running_instance


def build_series(*seconds, step=15):
    """Return a series with points at these seconds."""
    names = [name for chart in charts.METRIC_CHARTS for name, _ in chart.lines]
    values = {f"{name}{ending}": 1.0 for name in names for ending in ("", "_max")}
    points = [{"at": datetime.fromtimestamp(second, UTC), **values} for second in seconds]
    return {"since": points[0]["at"], "until": points[-1]["at"], "step": step, "points": points}


def test_metrics_tab_shows_values_table_and_chart_data(browser_as, instance_with_metrics):
    page = browser_as("owner").get(f"/instances/{instance_with_metrics.id}/metrics").text
    assert re.search(r"<th scope=\"row\"><span class=\"line line-1\"></span>Used</th><td>[0-9.]+ %</td>", page)
    assert "Mbit/s</td>" in page
    assert "Show as table" in page
    table = page.partition("Show as table")[2]
    assert re.findall(r'<th scope="col" class="text-end">([^<]+)</th>', table) == [
        "CPU",
        "Memory",
        "Network: Received",
        "Network: Sent",
        "Disk throughput: Read",
        "Disk throughput: Written",
        "Disk operations: Read",
        "Disk operations: Written",
    ]
    data = re.search(r'data-charts="([^"]+)"', page)[1].replace("&amp;", "&")
    body = browser_as("owner").get(data).json
    assert len(body["at"]) == len(body["values"]["cpu_percent"]) > 30
    assert body["maxima"] == {"cpu_percent": 100, "memory_used": instance_with_metrics.ram}
    assert all(0 < value <= 100 for value in body["values"]["cpu_percent"])
    for address in re.findall(r'(?:href|src)="(/static/[^"]*(?:uPlot|metrics)[^"]*)"', page):
        assert browser_as("owner").get(address).status_code == 200


def test_metrics_tab_links_time_ranges(browser_as, instance_with_metrics):
    page = browser_as("owner").get(f"/instances/{instance_with_metrics.id}/metrics?range=1d").text
    assert re.search(r'range=1d"[^>]*aria-current="true">1 day', page)
    assert "range=1w" in page
    assert (
        'aria-current="true">1 h<'
        in browser_as("owner").get(f"/instances/{instance_with_metrics.id}/metrics?range=never").text
    )


def test_metrics_tab_without_samples_shows_notice(browser_as, cast):
    instance = cast.instance()
    page = browser_as("owner").get(f"/instances/{instance.id}/metrics").text
    assert "data-no-data>" in page
    assert "Show as table" not in page


def test_charts_mark_tasks_and_begin_at_the_creation(browser_as, instance_with_metrics):
    """The chart of a new instance was an hour of empty axis."""
    path = f"/instances/{instance_with_metrics.id}/metrics"
    instance_with_metrics.created_at = clock.now() - timedelta(minutes=12)
    session.commit()
    assert 'aria-current="true">30 min<' in browser_as("owner").get(path).text
    data = browser_as("owner").get(f"{path}/data?range=1d").json
    assert data["until"] - data["since"] == pytest.approx(12 * 60, abs=2)
    deploy = session.scalars(select(Task).where(Task.kind == "instance_deploy")).one()
    deploy.started_at = clock.now() - timedelta(minutes=5)
    session.commit()
    marker = {"at": int(deploy.started_at.timestamp()), "label": "Deploy", "failed": False}
    assert marker in browser_as("owner").get(f"{path}/data").json["markers"]


def test_chart_data_requires_access_to_instance(browser_as, instance_with_metrics):
    assert browser_as("outsider").get(f"/instances/{instance_with_metrics.id}/metrics/data").status_code == 404
    assert browser_as("owner").get(f"/admin/instances/{instance_with_metrics.id}/metrics/data").status_code == 403
    assert browser_as("admin").get(f"/admin/instances/{instance_with_metrics.id}/metrics/data").json["at"]


def test_admin_metrics_tab_shows_current_usage(browser_as, instance_with_metrics):
    page = browser_as("admin").get(f"/admin/instances/{instance_with_metrics.id}/metrics").text
    assert "Not responding" in page
    assert re.search(r"[0-9.]+ % of 1 core", page)


def test_plot_data_keeps_gaps(rolled_back_app):
    plot = charts.build_plot_data(build_series(0, 15, 45, 105), {})
    assert plot["at"] == [0, 15, 45, 60, 105], "one missing point is bridged, more are a gap"
    assert plot["values"]["cpu_percent"] == [1, 1, 1, None, 1]
    assert charts.build_plot_data(build_series(0, 300, 900, step=300), {})["at"] == [0, 300, 600, 900]


def test_table_of_long_series_is_limited(rolled_back_app):
    rows = charts.build_table_rows(build_series(*range(0, 3600, 15)))
    assert len(rows) == 30
    assert rows[0][0] > rows[-1][0]


def test_sparkline_query_count_is_constant(browser_as, cast, queries):
    """A page with one instance and a page with many need the same number of queries."""

    def count_sparklines_and_queries(account, path):
        queries.clear()
        page = browser_as(account).get(path).text
        return page.count('class="sparkline"'), len(queries)

    def add_samples(instance):
        instance.deployed, instance.power = True, "on"
        now = int(clock.now().timestamp())
        for seconds_ago in (900, 600, 300):
            metrics.write({instance.id: dict.fromkeys(METRIC_NAMES, 20.0)}, now - seconds_ago, 300)
        session.commit()

    pages = {"owner": "/instances?per_page=100", "admin": "/admin/instances?per_page=100"}
    add_samples(cast.instance())
    for account, path in pages.items():
        count_sparklines_and_queries(account, path)
    counts_with_one = {account: count_sparklines_and_queries(account, path) for account, path in pages.items()}
    for _ in range(20):
        add_samples(cast.instance())
    counts_with_many = {account: count_sparklines_and_queries(account, path) for account, path in pages.items()}
    for account in pages:
        assert (counts_with_one[account][0], counts_with_many[account][0]) == (1, 21)
        assert counts_with_many[account][1] <= counts_with_one[account][1]


def test_list_without_metrics_has_no_cpu_column(browser_as, cast):
    cast.instance()
    assert session.query(Instance).count() == 1
    assert "<th>CPU</th>" not in browser_as("owner").get("/instances").text


def test_sparkline_breaks_at_gap():
    sparkline = charts.build_sparkline([(0.0, 0.1), (0.05, 0.2), (0.5, 0.3), (0.55, 1.0)], "x")
    assert str(sparkline).count("M") == 2


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_overview_of_instance_shows_load_of_the_last_hour(browser_as, instance_with_metrics, caller):
    prefix = "/admin" if caller == "admin" else ""
    page = html.fromstring(browser_as(caller).get(f"{prefix}/instances/{instance_with_metrics.id}").text)
    (section,) = page.xpath("//section[@aria-label='Load of the last hour']")
    tiles = [" ".join(tile.text_content().split()) for tile in section.xpath(".//div[contains(@class, 'card curve')]")]
    now = metrics.find_latest(instance_with_metrics)
    assert [tile.split()[0] for tile in tiles] == ["CPU", "Memory", "Disk", "Network"]
    assert tiles[0].startswith(f"CPU {charts.format_value('percent', now['cpu_percent'])}")
    assert "of 512 MiB" in tiles[1]
    assert len(section.xpath(".//*[name()='path' and contains(@class, 'edge')]")) == 4


def test_instance_that_was_never_deployed_has_no_load(browser_as, cast):
    assert "Load of the last hour" not in browser_as("owner").get(f"/instances/{cast.instance().id}").text


def test_metrics_of_hypervisor_are_charts_for_operators(browser_as, instance_with_metrics, cast):
    browser, path = browser_as("admin"), f"/admin/hypervisors/{cast.node.id}/metrics"
    assert "Network: Received" in browser.get(path).text
    data = browser.get(f"{path}/data?range=1h").json
    assert len(data["at"]) > 30
    assert data["maxima"] == {"cpu_percent": 100, "memory_used": cast.node.memory_mb}
    (own,) = metrics.get_series(instance_with_metrics, "1h")["points"][-1:]
    assert data["values"]["memory_used"][-1] == pytest.approx(own["memory_used"], rel=1e-3)
    assert browser_as("owner").get(path).status_code in (403, 404)


def test_metrics_of_hypervisor_show_its_own_load_and_that_of_its_machines(browser_as, instance_with_metrics, cast):
    path = f"/admin/hypervisors/{cast.node.id}/metrics"
    page = browser_as("admin").get(path).text
    assert (
        re.findall(r"</span>(Instances and micro VMs|Whole host)</th>", page)
        == [
            "Instances and micro VMs",
            "Whole host",
        ]
        * 2
    )
    values = browser_as("admin").get(f"{path}/data").json["values"]
    assert 0 < values["cpu_percent"][-1] < values["host_cpu_percent"][-1] < 100
    assert 0 < values["memory_used"][-1] < values["host_memory_used"][-1]


def test_load_of_a_host_that_does_not_report_it_is_left_out(browser_as, instance_with_metrics, cast, queries):
    session.execute(update(HypervisorMetric).values(dict.fromkeys(("host_cpu_percent", "host_cpu_percent_max"))))
    session.commit()
    path = f"/admin/hypervisors/{cast.node.id}/metrics"
    page = html.fromstring(browser_as("admin").get(path).text)
    cells = page.xpath("//tr[@data-metric='host_cpu_percent']/td/text()")
    assert cells == [charts.NO_VALUE] * 3
    assert set(browser_as("admin").get(f"{path}/data").json["values"]["host_cpu_percent"]) == {None}
    assert browser_as("admin").get(f"/admin/hypervisors/{cast.node.id}").status_code == 200
