"""The look at guest agents: what it writes, when, and with how many questions."""

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
    def look(instance=None):
        guest_agents.poll(cast.node.id)
        session.expire_all()
        return instance and reload(instance)

    return look


def advance_clock(monkeypatch, seconds):
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(seconds=seconds))


def test_guest_info_is_empty_until_the_first_poll(machine):
    assert (machine.agent_checked_at, machine.agent_seen_at, machine.agent_down) == (None, None, False)


@pytest.mark.filterwarnings("error::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("fault", [{"agent": False}, {"agent_hangs": True}])
def test_an_agent_comes_and_goes(machine, poll_node, node, monkeypatch, fault):
    """INS-64, INS-96, E2: missing or hung, it is noticed within two minutes."""
    row = poll_node(machine)
    assert row.agent_seen_at == row.agent_checked_at >= row.power_reported_at
    seen = row.agent_seen_at
    node.set_guest(machine.id, **fault)
    advance_clock(monkeypatch, 80)
    row = poll_node(machine)
    assert (row.agent_down, row.agent_seen_at, row.agent_checked_at > seen) == (True, seen, True)
    assert metrics.describe_agent(row) == {"available": False, "reason": "agent_not_reporting"}
    node.set_guest(machine.id)
    advance_clock(monkeypatch, 160)
    row = poll_node(machine)
    assert (row.agent_down, row.agent_seen_at > seen) == (False, True)
    assert metrics.describe_agent(row) == {"available": True, "reason": None}


@pytest.mark.filterwarnings("error::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("fault", [{"agent": False}, {"agent_hangs": True}])
def test_the_agent_of_a_watched_instance_is_pinged_at_every_step(machine, poll_node, node, reload, monkeypatch, fault):
    """INS-96, E2: what is written once a minute says so at once when it changed."""
    assert metrics.describe_agent(poll_node(machine))["available"]
    watched, called = [machine.id], []
    monkeypatch.setattr(watched_instances, "list_watched_ids", lambda: watched)
    monkeypatch.setattr(guest_agents.jobs, "enqueue_call", lambda *what: called.append(what))
    session.rollback()  # the look begins a transaction of its own, as in the schedule
    guest_agents.poll_all_watched()
    assert called == [("worker.sync.guest_agents.ping_watched", machine.hypervisor_id)]
    node.set_guest(machine.id, **fault)
    guest_agents.ping_watched(machine.hypervisor_id)
    session.expire_all()
    assert metrics.describe_agent(reload(machine)) == {"available": False, "reason": "agent_not_reporting"}
    node.set_guest(machine.id)
    guest_agents.ping_watched(machine.hypervisor_id)
    session.expire_all()
    assert metrics.describe_agent(reload(machine)) == {"available": True, "reason": None}


def test_viewers_mark_an_instance_as_watched_at_intervals(machine, api_as, browser_as, monkeypatch):
    """E2: a page or a metrics request marks it; not every one of them writes."""
    written = []

    monkeypatch.setattr(context.current().redis, "hset", lambda *_: 0)  # an error would pause Redis for both
    monkeypatch.setattr(context.current().redis, "zadd", lambda name, values: written.extend(values))
    monkeypatch.setattr(context.current(), "redis_paused_until", 0.0)
    for ask in (
        lambda: api_as("owner", "GET", f"/api/instance/{machine.id}/metrics"),
        lambda: api_as("admin", "GET", f"/api/v1/instance/{machine.id}/metrics"),
    ):
        context.current().marked_instances.clear()
        written.clear()
        assert [ask().status_code, ask().status_code] == [200, 200]
        assert written == [machine.id]
    context.current().marked_instances.clear()
    written.clear()
    watched_instances.mark(machine)
    machine.power = "off"
    context.current().marked_instances.clear()
    watched_instances.mark(machine)
    assert written == [machine.id]


def test_an_outdated_poll_changes_nothing(machine, poll_node, reload):
    """A ping that was sent earlier says nothing about what was seen later."""
    row = poll_node(machine)
    guest_agents.record_ping([machine.id], False, row.agent_checked_at - timedelta(seconds=1))
    session.expire_all()
    assert not reload(machine).agent_down


def test_the_same_is_written_once_a_minute(machine, poll_node, monkeypatch):
    first = poll_node(machine)
    changed, checked = first.updated_at, first.agent_checked_at
    assert poll_node(machine).agent_checked_at == checked
    advance_clock(monkeypatch, 75)
    row = poll_node(machine)
    assert (row.agent_checked_at > checked, row.updated_at) == (True, changed)


def test_pings_are_spread_and_silent_agents_come_last(machine, order, run_tasks, poll_node, node, monkeypatch, reload):
    """E2: a look pings a part of a large node in one call, and agents that hang keep no others waiting."""
    others = [order()[0] for _ in range(3)]
    run_tasks()
    poll_node()
    node.set_guest(machine.id, agent_hangs=True)
    advance_clock(monkeypatch, 80)
    poll_node()
    asked = []
    monkeypatch.setattr(guest_agents, "MIN_PINGS_PER_POLL", 2)
    monkeypatch.setattr(guest_agents, "PING_SHARE", 2)
    real = type(node).ping_agents
    monkeypatch.setattr(type(node), "ping_agents", lambda *args: asked.append(args[1]) or real(*args))
    advance_clock(monkeypatch, 80)
    guest_agents.poll(machine.hypervisor_id)
    assert len(asked) == 1
    assert len(asked[0]) == 2
    assert machine.id not in asked[0]
    assert set(asked[0]) < {other.id for other in others}


def test_a_guest_is_asked_every_few_minutes_and_after_it_was_turned_on(
    machine, poll_node, monkeypatch, request_action, run_tasks, node
):
    poll_node()
    first = session.get(GuestInfo, machine.id).at
    poll_node()
    assert session.get(GuestInfo, machine.id).at == first
    advance_clock(monkeypatch, 301)
    poll_node()
    second = session.get(GuestInfo, machine.id).at
    assert second > first
    request_action(session.get(Instance, machine.id), "poweroff")
    run_tasks()
    poll_node()
    assert session.get(GuestInfo, machine.id).at == second
    request_action(session.get(Instance, machine.id), "start")
    run_tasks()
    poll_node()
    assert session.get(GuestInfo, machine.id).at > second


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize("operation", ["ping_agents", "agent_addresses"])
def test_a_node_or_guest_that_does_not_answer_changes_nothing(
    machine, poll_node, node, reload, monkeypatch, operation, kind
):
    node.fault(operation, kind)
    row = poll_node(machine)
    assert session.get(GuestInfo, machine.id) is None
    assert (row.agent_checked_at is None) == (operation == "ping_agents")
    node.clear()
    node.ping()
    advance_clock(monkeypatch, 80)
    poll_node()
    assert session.get(GuestInfo, machine.id).addresses


def test_a_guest_that_does_not_tell_of_its_file_systems(machine, poll_node, node):
    node.fault("agent_filesystems", "refuse")
    poll_node()
    report = session.get(GuestInfo, machine.id)
    assert (len(report.addresses), report.filesystems) == (2, [])


def test_the_look_takes_the_same_questions_for_many(machine, poll_node, order, run_tasks, queries, monkeypatch):
    monkeypatch.setattr(guest_agents, "poll_guests", lambda *_: None)
    poll_node()
    advance_clock(monkeypatch, 75)
    queries.clear()
    poll_node()
    few = len(queries)
    for _ in range(4):
        order()
    run_tasks()
    advance_clock(monkeypatch, 200)
    queries.clear()
    poll_node()
    assert len(queries) == few
    assert session.query(Instance).filter(Instance.agent_seen_at.is_(None)).count() == 0


def test_every_node_that_is_up_is_looked_at(cast, monkeypatch):
    called = []
    monkeypatch.setattr(guest_agents.jobs, "enqueue_call", lambda *what: called.append(what))
    guest_agents.poll_all()
    assert called == [("worker.sync.guest_agents.poll", cast.node.id)]
    cast.node.status = "down"
    session.commit()
    guest_agents.poll_all()
    assert len(called) == 1
