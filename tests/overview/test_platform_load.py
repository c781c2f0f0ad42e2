"""The operators' overview: health, curves of the platform, used capacity, forecasts, and what is new."""

from datetime import timedelta

import pytest
from lxml import html

from panel.core import clock, context
from panel.core.db import session
from panel.models import Hypervisor, LocationAllocation, Task, WebhookDelivery
from panel.services import capacity_forecast, hypervisors, overview, workers
from panel.services.metrics import rollup_host, write_host
from panel.services.webhooks import subscriptions
from tests.overview.failed_tasks import add_failed_task
from tests.support.metrics import SAMPLE

CURVE = "//div[contains(@class, 'card curve')]"


@pytest.fixture(autouse=True)
def healthy_platform(monkeypatch, rolled_back_app, cast):
    monkeypatch.setattr(workers, "count_alive", lambda: 2)
    context.current().cached_platform_curves = 0, None
    cast.node.seen_at = clock.now()
    session.commit()
    yield
    context.current().cached_platform_curves = 0, None


@pytest.fixture
def load(browser_as):
    """Return a function that loads the overview as an operator and parses it."""
    browser = browser_as("admin")
    return lambda: html.fromstring(browser.get("/admin").text)


def list_health(page):
    """Return {title: (text, color, address)} of the line of health."""
    return {
        link.xpath("string(.//span[contains(@class, 'small')])"): (
            link.xpath("string(.//span[contains(@class, 'fw-medium')])"),
            link.xpath("string(.//span[contains(@class, 'status-dot')]/@class)").rpartition("status-")[2],
            link.get("href"),
        )
        for link in page.xpath("//ul[contains(@class, 'health')]//a")
    }


def test_healthy_platform_is_green(load):
    health = list_health(load())
    assert len(health) == 5
    assert {color for _, color, _ in health.values()} == {"green"}
    assert health["Hypervisors"][0] == "1 of 1 up"


def test_health_counts_what_is_wrong(load, cast):
    cast.node.seen_at = clock.now() - timedelta(minutes=5)
    add_failed_task(cast, "instance_create", "The image is broken.", "NodeError")
    add_failed_task(cast, "instance_shell", "No answer.", "AgentUnavailable")
    task = Task(kind="instance_create", resource_type="instance", resource_id=cast.owner.id, arguments={})
    task.queued_at = clock.now() - timedelta(minutes=7)
    hook = subscriptions.create(
        cast.owner, name="h", url="https://1.1.1.1/", secret="correct horse battery", event_kinds=["*"]
    )
    session.add(task)
    session.flush()
    late = {"account_id": cast.owner.id, "subscription_id": hook.id, "event_kind": "instance.created"}
    session.add(WebhookDelivery(**late, due_at=clock.now() - timedelta(minutes=5)))
    session.commit()
    health = list_health(load())
    assert health["Hypervisors"] == ("0 of 1 up, 1 out of date", "orange", "/admin/hypervisors")
    assert health["Task queue"][:2] == ("Oldest waits for 7 min", "orange")
    assert health["Faults in the last hour"][:2] == ("1 failed task", "red")
    assert health["Webhook deliveries"] == ("1 late", "orange", f"/admin/customers/{cast.owner.id}")


def measure(node, age_seconds, **values):
    write_host(node.id, SAMPLE | values, clock.now().timestamp() - age_seconds)


def test_curves_show_sums_of_all_hypervisors(load, cast):
    assert not load().xpath(CURVE)
    other = hypervisors.create(
        cast.location, name="node-2", driver="simulated", uri="simulated://2", storage_path="/srv"
    )
    now = clock.now().timestamp()
    for node in (session.get(Hypervisor, cast.node.id), other):
        node.cpu_cores = 8
        for age in (0, 15, 300, 315, 600, 615):
            measure(node, age, cpu_percent=25.0)
        rollup_host(node.id, now - 900, now)
    session.commit()
    context.current().cached_platform_curves = 0, None
    titles = [" ".join(curve.text_content().split()) for curve in load().xpath(CURVE)]
    assert [title.split()[0] for title in titles] == ["CPU", "Memory", "Network", "Storage"]
    assert titles[0].startswith("CPU 4.0 cores of 16.0 cores")
    assert "9.00 Mbit/s" in titles[2]
    (capacity,) = (row for row in overview.list_capacities() if row.group.id == cast.location.id)
    assert (capacity.cpu_used, capacity.ram_used) == (4.0, 512.0)
    assert "in use: 4.0 of 16" in load().text_content()


def test_curves_are_cached_for_some_seconds(load, queries):
    def count_reads():
        queries.clear()
        load()
        return sum("FROM hypervisors JOIN hypervisor_metrics" in query for query in queries)

    first = count_reads()
    assert count_reads() == first - 1


def add_history(cast, days, growth):
    today = clock.now().date()
    for age in range(days):
        day = today - timedelta(days=age)
        session.add(LocationAllocation(group_id=cast.location.id, day=day, cpu_cores=100 - growth * age))
    session.commit()


@pytest.mark.parametrize(("days", "growth", "text"), [(10, 3, "Full in 9 days"), (3, 3, None), (10, 0, None)])
def test_forecast_needs_history_and_growth(load, cast, days, growth, text):
    cast.node.cpu_overcommit = 29 / cast.node.cpu_cores
    add_history(cast, days, growth)
    assert ("Full in" in load().text_content()) == bool(text)
    assert text is None or text in load().text_content()


def test_allocations_are_recorded_once_a_day(cast, load):
    cast.instance()
    session.add(LocationAllocation(group_id=cast.location.id, day=clock.now().date() - timedelta(days=90)))
    for _ in range(2):
        capacity_forecast.record_allocations()
    session.commit()
    (row,) = session.query(LocationAllocation).all()
    assert (row.day, row.cpu_cores, row.ram, row.storage, row.addresses) == (clock.now().date(), 1, 512, 10, 1)


def test_overview_names_new_customers_but_no_operators(load):
    card = load().xpath("//section[@aria-label='New customers']")[0].text_content()
    assert "owner@example.com" in card
    assert "admin@example.com" not in card
    assert "member@example.com" not in card


def test_number_of_queries_does_not_grow_with_hypervisors(load, cast, queries):
    load()
    queries.clear()
    load()
    few = len(queries)
    for number in range(5):
        group = hypervisors.create_group(name=f"g{number}", display_name=f"G{number}")
        node = hypervisors.create(
            group, name=f"n{number}", driver="simulated", uri=f"simulated://{number}", storage_path="/srv"
        )
        node.status, node.seen_at, node.cpu_cores = "up", clock.now(), 4
        measure(node, 15)
    session.commit()
    context.current().cached_platform_curves = 0, None
    load()
    queries.clear()
    load()
    assert len(queries) == few
