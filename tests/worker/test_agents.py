"""The look at guest agents: what it writes, when, and with how many questions."""

from datetime import timedelta

import pytest

from panel import clock
from panel.db import session
from panel.models import GuestReport, Instance
from worker import agents


@pytest.fixture
def look(cast, again):
    def look(instance=None):
        agents.look(cast.node.id)
        session.expire_all()
        return instance and again(instance)

    return look


def later(monkeypatch, seconds):
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(seconds=seconds))


def test_nothing_is_known_until_somebody_looked(machine):
    assert (machine.agent_checked_at, machine.agent_seen_at, machine.agent_down) == (None, None, False)


def test_an_agent_comes_and_goes(machine, look, node):
    row = look(machine)
    assert row.agent_seen_at == row.agent_checked_at >= row.power_at
    seen = row.agent_seen_at
    node.set_guest(machine.id, agent=False)
    row = look(machine)
    assert (row.agent_down, row.agent_seen_at, row.agent_checked_at > seen) == (True, seen, True)
    node.set_guest(machine.id)
    row = look(machine)
    assert (row.agent_down, row.agent_seen_at > seen) == (False, True)


def test_the_same_is_written_once_a_minute(machine, look, monkeypatch):
    first = look(machine)
    changed, checked = first.updated_at, first.agent_checked_at
    assert look(machine).agent_checked_at == checked
    later(monkeypatch, 61)
    row = look(machine)
    assert (row.agent_checked_at > checked, row.updated_at) == (True, changed)


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
@pytest.mark.parametrize("operation", ["agents", "agent_addresses"])
def test_a_node_or_guest_that_does_not_answer_changes_nothing(machine, look, node, again, operation, kind):
    node.fault(operation, kind)
    row = look(machine)
    assert session.get(GuestReport, machine.id) is None
    assert (row.agent_checked_at is None) == (operation == "agents")
    node.clear()
    node.ping()
    look()
    assert session.get(GuestReport, machine.id).addresses


def test_a_guest_that_does_not_tell_of_its_file_systems(machine, look, node):
    node.fault("agent_filesystems", "refuse")
    look()
    report = session.get(GuestReport, machine.id)
    assert (len(report.addresses), report.filesystems) == (2, [])


def test_the_look_takes_the_same_questions_for_many(machine, look, order, work, queries, monkeypatch):
    monkeypatch.setattr(agents, "ask", lambda *_: None)
    look()
    later(monkeypatch, 61)
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
    monkeypatch.setattr(agents.jobs, "call", lambda *what: called.append(what))
    agents.look_everywhere()
    assert called == [("worker.agents.look", cast.node.id)]
    cast.node.status = "down"
    session.commit()
    agents.look_everywhere()
    assert len(called) == 1
