"""Attention items of the operators' overview: capacity and failed tasks, grouped by cause."""

from decimal import Decimal

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor
from panel.services import overview, workers
from tests.overview.failed_tasks import add_failed_task
from tests.support.html_pages import find_attention_items


@pytest.fixture(autouse=True)
def healthy_platform(monkeypatch, rolled_back_app, cast):
    monkeypatch.setattr(workers, "count_alive", lambda: 2)
    cast.node.seen_at = clock.now()
    session.commit()


@pytest.fixture
def load_attention_items(browser_as):
    return lambda: find_attention_items(browser_as("admin").get("/admin").text)


def test_full_location_needs_attention(load_attention_items, cast):
    assert "full" not in load_attention_items()
    cast.node.memory_overcommit = 0.0
    session.commit()
    assert "Laboratory is full" in load_attention_items()


def test_nearly_full_location_needs_attention(load_attention_items, cast, run_tasks):
    cast.instance()
    cast.node.memory_overcommit = 512 * 1.05 / cast.node.memory_mb
    cast.plan.ram = 16
    session.commit()
    assert "Laboratory is nearly full" in load_attention_items()
    assert "of the memory is allocated" in load_attention_items()


def test_hypervisor_without_kvm_needs_attention(load_attention_items, cast):
    node = session.get(Hypervisor, cast.node.id)
    node.driver, node.accelerated, node.version = "libvirt", False, "9.0"
    session.commit()
    assert "node-1 runs without KVM" in load_attention_items()


def test_errors_in_guests_are_counted_separately(load_attention_items, cast):
    for _ in range(61):
        add_failed_task(cast, "instance_ssh_session", "The guest agent does not answer.", "AgentUnavailable")
    text = load_attention_items()
    assert "61 tasks failed in customers&#39; instances today" in text
    assert "The guest agent does not answer. (61)" in text
    assert "61 tasks failed today" not in text
    add_failed_task(cast, "instance_start", "The hypervisor refused.", "Refused")
    assert "1 task failed today" in load_attention_items()


def test_equal_errors_of_different_task_kinds_are_grouped(load_attention_items, cast):
    error = "The guest agent does not answer."
    for kind in ("instance_ssh_session", "instance_password", "instance_password"):
        add_failed_task(cast, kind, error, "AgentUnavailable")
    text = load_attention_items()
    assert "3 tasks failed in customers&#39; instances today" in text
    assert text.count(error) == 1
    assert f"{error} (3)" in text


def test_failed_downloads_and_certificates_are_counted_separately(load_attention_items, cast):
    add_failed_task(cast, "media_download", "The server answers 404.", "FetchError")
    add_failed_task(cast, "media_download", "It was replaced by another attempt.", "Superseded")
    add_failed_task(cast, "certificate_order", "The name is unknown.", "Refused", resource_type="certificate")
    text = load_attention_items()
    assert "2 downloads of customers failed today" in text
    assert "The server answers 404. (1)" in text
    assert "1 certificate order of a customer failed today" in text
    assert "guests" not in text


def test_failed_platform_download_counts_as_platform_failure(rolled_back_app, cast):
    add_failed_task(cast, "media_download", "Not found.", "FetchError", account=False)
    add_failed_task(cast, "media_download", "Not found.", "FetchError")
    since = clock.now().replace(hour=0, minute=0)
    assert len(session.scalars(overview.select_failed_since(since)).all()) == 1


def test_sums_of_postgresql_become_numbers_that_can_be_divided():
    values = [overview.convert_decimal(value) for value in (Decimal(3), Decimal("1.5"), 2, None)]
    assert [(value, type(value)) for value in values[:3]] == [(3, int), (1.5, float), (2, int)]
    assert values[3] is None
