"""The poll of guest agents: what it writes, when, and with how many queries."""

from datetime import timedelta

import pytest

from panel.core import clock, context
from panel.core.db import session
from panel.models import GuestInfo, Instance
from panel.services import watched_instances
from panel.services.metrics import read as metrics
from worker.sync import guest_agents


@pytest.fixture
def poll_node(cast, reload):
    def poll(instance=None):
        guest_agents.poll(cast.node.id)
        session.expire_all()
        return instance and reload(instance)

    return poll


def advance_clock(monkeypatch, seconds):
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(seconds=seconds))


def test_guest_info_is_empty_before_first_poll(running_instance):
    assert (running_instance.agent_checked_at, running_instance.agent_seen_at, running_instance.agent_down) == (
        None,
        None,
        False,
    )


@pytest.mark.filterwarnings("error::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("fault", [{"agent": False}, {"agent_hangs": True}])
def test_agent_outage_and_recovery_are_detected(running_instance, poll_node, node, monkeypatch, fault):
    """INS-64, INS-96, E2: a missing or hanging agent is detected within two minutes."""
    row = poll_node(running_instance)
    assert row.agent_seen_at == row.agent_checked_at >= row.power_reported_at
    last_seen_at = row.agent_seen_at
    node.set_guest(running_instance.id, **fault)
    advance_clock(monkeypatch, 80)
    row = poll_node(running_instance)
    assert (row.agent_down, row.agent_seen_at, row.agent_checked_at > last_seen_at) == (True, last_seen_at, True)
    assert metrics.describe_agent(row) == {"available": False, "reason": "agent_not_reporting"}
    node.set_guest(running_instance.id)
    advance_clock(monkeypatch, 160)
    row = poll_node(running_instance)
    assert (row.agent_down, row.agent_seen_at > last_seen_at) == (False, True)
    assert metrics.describe_agent(row) == {"available": True, "reason": None}


@pytest.mark.filterwarnings("error::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("fault", [{"agent": False}, {"agent_hangs": True}])
def test_status_change_of_watched_agent_is_recorded_immediately(
    running_instance, poll_node, node, reload, monkeypatch, fault
):
    """INS-96, E2: an unchanged status is written once a minute, a change at once."""
    assert metrics.describe_agent(poll_node(running_instance))["available"]
    watched, calls = [running_instance.id], []
    monkeypatch.setattr(watched_instances, "list_watched_ids", lambda: watched)
    monkeypatch.setattr(guest_agents.jobs, "enqueue_call", lambda *call: calls.append(call))
    session.rollback()  # the poll begins its own transaction, as in the scheduler
    guest_agents.poll_all_watched()
    assert calls == [("worker.sync.guest_agents.ping_watched", running_instance.hypervisor_id)]
    node.set_guest(running_instance.id, **fault)
    guest_agents.ping_watched(running_instance.hypervisor_id)
    session.expire_all()
    assert metrics.describe_agent(reload(running_instance)) == {"available": False, "reason": "agent_not_reporting"}
    node.set_guest(running_instance.id)
    guest_agents.ping_watched(running_instance.hypervisor_id)
    session.expire_all()
    assert metrics.describe_agent(reload(running_instance)) == {"available": True, "reason": None}


def test_metrics_requests_mark_instance_as_watched_at_intervals(running_instance, api_as, browser_as, monkeypatch):
    """E2: a page or a metrics request marks the instance, but not every request writes."""
    marked_ids = []

    monkeypatch.setattr(context.current().redis, "hset", lambda *_: 0)  # an error would pause Redis for both functions
    monkeypatch.setattr(context.current().redis, "zadd", lambda name, values: marked_ids.extend(values))
    monkeypatch.setattr(context.current(), "redis_paused_until", 0.0)
    for send_request in (
        lambda: api_as("owner", "GET", f"/api/instance/{running_instance.id}/metrics"),
        lambda: api_as("admin", "GET", f"/api/v1/instance/{running_instance.id}/metrics"),
    ):
        context.current().marked_instances.clear()
        marked_ids.clear()
        assert [send_request().status_code, send_request().status_code] == [200, 200]
        assert marked_ids == [running_instance.id]
    context.current().marked_instances.clear()
    marked_ids.clear()
    watched_instances.mark_watched(running_instance)
    running_instance.power = "off"
    context.current().marked_instances.clear()
    watched_instances.mark_watched(running_instance)
    assert marked_ids == [running_instance.id]


def test_outdated_agent_ping_is_ignored(running_instance, poll_node, reload):
    """A ping that was sent before the last one does not overwrite its result."""
    row = poll_node(running_instance)
    guest_agents.record_ping([running_instance.id], False, row.agent_checked_at - timedelta(seconds=1))
    session.expire_all()
    assert not reload(running_instance).agent_down


def test_unchanged_agent_status_is_written_once_per_minute(running_instance, poll_node, monkeypatch):
    first = poll_node(running_instance)
    updated_at, checked_at = first.updated_at, first.agent_checked_at
    assert poll_node(running_instance).agent_checked_at == checked_at
    advance_clock(monkeypatch, 75)
    row = poll_node(running_instance)
    assert (row.agent_checked_at > checked_at, row.updated_at) == (True, updated_at)


def test_agent_pings_are_split_and_silent_agents_come_last(
    running_instance, request_deploy, run_tasks, poll_node, node, monkeypatch, reload
):
    """E2: a poll pings a part of a large node in one call, and hanging agents do not delay others."""
    others = [request_deploy()[0] for _ in range(3)]
    run_tasks()
    poll_node()
    node.set_guest(running_instance.id, agent_hangs=True)
    advance_clock(monkeypatch, 80)
    poll_node()
    pinged_ids = []
    monkeypatch.setattr(guest_agents, "MIN_PINGS_PER_POLL", 2)
    monkeypatch.setattr(guest_agents, "PING_SHARE", 2)
    real = type(node).ping_agents
    monkeypatch.setattr(type(node), "ping_agents", lambda *args: pinged_ids.append(args[1]) or real(*args))
    advance_clock(monkeypatch, 80)
    guest_agents.poll(running_instance.hypervisor_id)
    assert len(pinged_ids) == 1
    assert len(pinged_ids[0]) == 2
    assert running_instance.id not in pinged_ids[0]
    assert set(pinged_ids[0]) < {other.id for other in others}


def test_guest_info_is_polled_at_intervals_and_after_start(
    running_instance, poll_node, monkeypatch, request_action, run_tasks, node
):
    poll_node()
    first = session.get(GuestInfo, running_instance.id).at
    poll_node()
    assert session.get(GuestInfo, running_instance.id).at == first
    advance_clock(monkeypatch, 301)
    poll_node()
    second = session.get(GuestInfo, running_instance.id).at
    assert second > first
    request_action(session.get(Instance, running_instance.id), "poweroff")
    run_tasks()
    poll_node()
    assert session.get(GuestInfo, running_instance.id).at == second
    request_action(session.get(Instance, running_instance.id), "start")
    run_tasks()
    poll_node()
    assert session.get(GuestInfo, running_instance.id).at > second


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize("operation", ["ping_agents", "agent_addresses"])
def test_guest_poll_without_answer_changes_nothing(
    running_instance, poll_node, node, reload, monkeypatch, operation, kind
):
    node.fault(operation, kind)
    row = poll_node(running_instance)
    assert session.get(GuestInfo, running_instance.id) is None
    assert (row.agent_checked_at is None) == (operation == "ping_agents")
    node.clear()
    node.ping()
    advance_clock(monkeypatch, 80)
    poll_node()
    assert session.get(GuestInfo, running_instance.id).addresses


def test_guest_info_without_filesystems_keeps_addresses(running_instance, poll_node, node):
    node.fault("agent_filesystems", "refuse")
    poll_node()
    report = session.get(GuestInfo, running_instance.id)
    assert (len(report.addresses), report.filesystems) == (2, [])


def test_agent_poll_query_count_is_constant(
    running_instance, poll_node, request_deploy, run_tasks, queries, monkeypatch
):
    monkeypatch.setattr(guest_agents, "poll_guests", lambda *_: None)
    poll_node()
    advance_clock(monkeypatch, 75)
    queries.clear()
    poll_node()
    query_count = len(queries)
    for _ in range(4):
        request_deploy()
    run_tasks()
    advance_clock(monkeypatch, 200)
    queries.clear()
    poll_node()
    assert len(queries) == query_count
    assert session.query(Instance).filter(Instance.agent_seen_at.is_(None)).count() == 0


def test_agent_poll_is_queued_only_for_nodes_that_are_up(cast, monkeypatch):
    calls = []
    monkeypatch.setattr(guest_agents.jobs, "enqueue_call", lambda *call: calls.append(call))
    guest_agents.poll_all()
    assert calls == [("worker.sync.guest_agents.poll", cast.node.id)]
    cast.node.status = "down"
    session.commit()
    guest_agents.poll_all()
    assert len(calls) == 1
