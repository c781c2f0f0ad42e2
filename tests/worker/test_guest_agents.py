"""The look at guest agents: what it writes, when, and with how many questions."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import GuestReport, Instance
from panel.services import watched_instances
from panel.services.metrics import read as metrics
from worker.sync import guest_agents


@pytest.fixture
def look(cast, again):
    def look(instance=None):
        guest_agents.look(cast.node.id)
        session.expire_all()
        return instance and again(instance)

    return look


def later(monkeypatch, seconds):
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(seconds=seconds))


def test_nothing_is_known_until_somebody_looked(machine):
    assert (machine.agent_checked_at, machine.agent_seen_at, machine.agent_down) == (None, None, False)


@pytest.mark.filterwarnings("error::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("fault", [{"agent": False}, {"agent_hangs": True}])
def test_an_agent_comes_and_goes(machine, look, node, monkeypatch, fault):
    """INS-64, INS-96, E2: missing or hung, it is noticed within two minutes."""
    row = look(machine)
    assert row.agent_seen_at == row.agent_checked_at >= row.power_at
    seen = row.agent_seen_at
    node.set_guest(machine.id, **fault)
    later(monkeypatch, 80)
    row = look(machine)
    assert (row.agent_down, row.agent_seen_at, row.agent_checked_at > seen) == (True, seen, True)
    assert metrics.agent(row) == {"available": False, "reason": "agent_not_reporting"}
    node.set_guest(machine.id)
    later(monkeypatch, 160)
    row = look(machine)
    assert (row.agent_down, row.agent_seen_at > seen) == (False, True)
    assert metrics.agent(row) == {"available": True, "reason": None}


@pytest.mark.filterwarnings("error::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("fault", [{"agent": False}, {"agent_hangs": True}])
def test_the_agent_of_a_watched_instance_is_pinged_at_every_step(machine, look, node, again, monkeypatch, fault):
    """INS-96, E2: what is written once a minute says so at once when it changed."""
    assert metrics.agent(look(machine))["available"]
    watched, called = [machine.id], []
    monkeypatch.setattr(watched_instances, "ids", lambda: watched)
    monkeypatch.setattr(guest_agents.jobs, "call", lambda *what: called.append(what))
    session.rollback()  # the look begins a transaction of its own, as in the schedule
    guest_agents.look_at_watched()
    assert called == [("worker.sync.guest_agents.ping_watched", machine.hypervisor_id)]
    node.set_guest(machine.id, **fault)
    guest_agents.ping_watched(machine.hypervisor_id)
    session.expire_all()
    assert metrics.agent(again(machine)) == {"available": False, "reason": "agent_not_reporting"}
    node.set_guest(machine.id)
    guest_agents.ping_watched(machine.hypervisor_id)
    session.expire_all()
    assert metrics.agent(again(machine)) == {"available": True, "reason": None}


def test_who_looks_marks_an_instance_now_and_then(machine, as_, browse, monkeypatch):
    """E2: a page or a metrics request marks it; not every one of them writes."""
    written = []

    monkeypatch.setattr(watched_instances.jobs.connection, "zadd", lambda name, values: written.extend(values))
    monkeypatch.setattr(watched_instances, "away_until", 0.0)
    for ask in (
        lambda: as_("owner", "GET", f"/api/instance/{machine.id}/metrics"),
        lambda: as_("admin", "GET", f"/api/v1/instance/{machine.id}/metrics"),
    ):
        watched_instances.marked.clear()
        written.clear()
        assert [ask().status_code, ask().status_code] == [200, 200]
        assert written == [machine.id]
    watched_instances.marked.clear()
    written.clear()
    watched_instances.mark(machine)
    machine.power = "off"
    watched_instances.marked.clear()
    watched_instances.mark(machine)
    assert written == [machine.id]


def test_a_look_that_is_overtaken_changes_nothing(machine, look, again):
    """A ping that was sent earlier says nothing about what was seen later."""
    row = look(machine)
    guest_agents.note([machine.id], False, row.agent_checked_at - timedelta(seconds=1))
    session.expire_all()
    assert not again(machine).agent_down


def test_the_same_is_written_once_a_minute(machine, look, monkeypatch):
    first = look(machine)
    changed, checked = first.updated_at, first.agent_checked_at
    assert look(machine).agent_checked_at == checked
    later(monkeypatch, 75)
    row = look(machine)
    assert (row.agent_checked_at > checked, row.updated_at) == (True, changed)


def test_pings_are_spread_and_silent_agents_come_last(machine, order, work, look, node, monkeypatch, again):
    """E2: a look pings a part of a large node in one call, and agents that hang keep no others waiting."""
    others = [order()[0] for _ in range(3)]
    work()
    look()
    node.set_guest(machine.id, agent_hangs=True)
    later(monkeypatch, 80)
    look()
    asked = []
    monkeypatch.setattr(guest_agents, "PING_AT_LEAST", 2)
    monkeypatch.setattr(guest_agents, "PING_SHARE", 2)
    real = type(node).agents_answering
    monkeypatch.setattr(type(node), "agents_answering", lambda *args: asked.append(args[1]) or real(*args))
    later(monkeypatch, 80)
    guest_agents.look(machine.hypervisor_id)
    assert len(asked) == 1
    assert len(asked[0]) == 2
    assert machine.id not in asked[0]
    assert set(asked[0]) < {other.id for other in others}


def test_a_guest_is_asked_every_few_minutes_and_after_it_was_turned_on(machine, look, monkeypatch, act, work, node):
    look()
    first = session.get(GuestReport, machine.id).at
    look()
    assert session.get(GuestReport, machine.id).at == first
    later(monkeypatch, 301)
    look()
    second = session.get(GuestReport, machine.id).at
    assert second > first
    act(session.get(Instance, machine.id), "poweroff")
    work()
    look()
    assert session.get(GuestReport, machine.id).at == second
    act(session.get(Instance, machine.id), "start")
    work()
    look()
    assert session.get(GuestReport, machine.id).at > second


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize("operation", ["agents_answering", "agent_addresses"])
def test_a_node_or_guest_that_does_not_answer_changes_nothing(machine, look, node, again, monkeypatch, operation, kind):
    node.fault(operation, kind)
    row = look(machine)
    assert session.get(GuestReport, machine.id) is None
    assert (row.agent_checked_at is None) == (operation == "agents_answering")
    node.clear()
    node.ping()
    later(monkeypatch, 80)
    look()
    assert session.get(GuestReport, machine.id).addresses


def test_a_guest_that_does_not_tell_of_its_file_systems(machine, look, node):
    node.fault("agent_filesystems", "refuse")
    look()
    report = session.get(GuestReport, machine.id)
    assert (len(report.addresses), report.filesystems) == (2, [])


def test_the_look_takes_the_same_questions_for_many(machine, look, order, work, queries, monkeypatch):
    monkeypatch.setattr(guest_agents, "ask", lambda *_: None)
    look()
    later(monkeypatch, 75)
    queries.clear()
    look()
    few = len(queries)
    for _ in range(4):
        order()
    work()
    later(monkeypatch, 200)
    queries.clear()
    look()
    assert len(queries) == few
    assert session.query(Instance).filter(Instance.agent_seen_at.is_(None)).count() == 0


def test_every_node_that_is_up_is_looked_at(cast, monkeypatch):
    called = []
    monkeypatch.setattr(guest_agents.jobs, "call", lambda *what: called.append(what))
    guest_agents.look_everywhere()
    assert called == [("worker.sync.guest_agents.look", cast.node.id)]
    cast.node.status = "down"
    session.commit()
    guest_agents.look_everywhere()
    assert len(called) == 1
