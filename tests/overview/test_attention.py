"""What needs attention on the operators' overview: capacity, and platform faults apart from customers' (finding M8)."""

import pytest

from panel.core import clock
from panel.core.db import new_id, session
from panel.models import Hypervisor, Task
from panel.services import overview, workers
from tests.overview.test_admin_pages import attention


@pytest.fixture(autouse=True)
def healthy(monkeypatch, world, cast):
    monkeypatch.setattr(workers, "alive", lambda: 2)
    cast.node.seen_at = clock.now()
    session.commit()


@pytest.fixture
def shown(browse):
    return lambda: attention(browse("admin").get("/admin").text)


def fail(cast, kind, error, error_class, account=True, resource_type="instance"):
    task = Task(id=new_id(), kind=kind, resource_type=resource_type, resource_id=new_id(), resource_name="x")
    task.account_id, task.lock, task.actor, task.arguments = (account and cast.owner.id) or None, "light", "t", {}
    task.status, task.error, task.error_class, task.finished_at = "failed", error, error_class, clock.now()
    session.add(task)
    session.commit()


def test_a_full_location_needs_attention(shown, cast):
    assert "full" not in shown()
    cast.node.memory_overcommit = 0.0
    session.commit()
    assert "Laboratory is full" in shown()


def test_a_nearly_full_location_needs_attention(shown, cast, work):
    cast.instance()
    cast.node.memory_overcommit = 512 * 1.05 / cast.node.memory_mb
    cast.plan.ram = 16
    session.commit()
    assert "Laboratory is nearly full" in shown()
    assert "of the memory is allocated" in shown()


def test_a_hypervisor_without_kvm_needs_attention(shown, cast):
    node = session.get(Hypervisor, cast.node.id)
    node.driver, node.accelerated, node.version = "libvirt", False, "9.0"
    session.commit()
    assert "node-1 runs without KVM" in shown()


def test_customers_errors_are_counted_apart(shown, cast):
    for _ in range(61):
        fail(cast, "instance_ssh_session", "The guest agent does not answer.", "AgentSilent")
    text = shown()
    assert "61 failed tasks in customers&#39; guests today" in text
    assert "The guest agent does not answer. (61)" in text
    assert "failed today" not in text
    fail(cast, "instance_start", "The hypervisor refused.", "Refused")
    assert "1 task failed today" in shown()


def test_one_sentence_appears_once_whatever_kinds_of_task_it_ended(shown, cast):
    silent = "The guest agent does not answer."
    for kind in ("instance_ssh_session", "instance_password", "instance_password"):
        fail(cast, kind, silent, "AgentSilent")
    text = shown()
    assert "3 failed tasks in customers&#39; guests today" in text
    assert text.count(silent) == 1
    assert f"{silent} (3)" in text


def test_failed_downloads_and_certificates_are_not_told_as_in_guests(shown, cast):
    fail(cast, "media_download", "The server answers 404.", "Unfetched")
    fail(cast, "media_download", "Another attempt took its place.", "Superseded")
    fail(cast, "certificate_order", "The name is unknown.", "Refused", resource_type="certificate")
    text = shown()
    assert "2 failed downloads of customers today" in text
    assert "The server answers 404. (1)" in text
    assert "1 failed order of customers&#39; certificates today" in text
    assert "guests" not in text


def test_a_download_of_the_platform_that_fails_is_the_platforms(world, cast):
    fail(cast, "media_download", "Not found.", "Unfetched", account=False)
    fail(cast, "media_download", "Not found.", "Unfetched")
    since = clock.now().replace(hour=0, minute=0)
    assert len(session.scalars(overview.failed_since(since)).all()) == 1
