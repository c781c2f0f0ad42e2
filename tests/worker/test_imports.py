"""An adoption that fails, at whatever call, leaves the machine what it was."""

import pytest
from sqlalchemy import func, select

from panel.core.db import session
from panel.models import Address, Event, Instance, Interface, Rental, Task
from tests.hypervisors.test_imports import (  # noqa: F401  (fixtures)
    IP,
    STRANGER,
    adopt,
    adopted,
    discover,
    ended,
    foreign,
    path,
    told,
)
from worker.sync import node_sync


def traces():
    """What an adoption writes, counted."""
    kinds = (Instance, Interface, Rental, Event)
    held = session.scalar(select(func.count()).where(Address.interface_id.is_not(None)))
    return [session.scalar(select(func.count()).select_from(kind)) for kind in kinds] + [held]


@pytest.fixture
def untouched(told, node):  # noqa: F811
    """Says that the machine, its disks and all rows are as they were."""
    before = node.definition_of(STRANGER), sorted(map(str, node.disks("default"))), traces()

    def check():
        assert adopted() is None
        found = node.definition_of(STRANGER), sorted(map(str, node.disks("default"))), traces()
        assert found == before
        assert session.scalar(select(func.count()).select_from(Task).where(Task.undo_left)) == 0

    return check


@pytest.fixture
def taken(cast):
    """Gives the guest's address to another instance, and takes it back."""
    other = cast.instance()

    def give(to=other):
        session.scalar(select(Address).where(Address.ip == IP)).interface_id = to and to.interfaces[0].id
        session.commit()

    return give


@pytest.mark.parametrize("call", ["describe", "adopt"])
@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_a_call_that_fails_leaves_it_as_it_was(adopt, untouched, node, work, call, kind, cast, sweeping):  # noqa: F811
    asked = adopt()
    node.fault(call, kind, count=1)
    assert ended(asked, work).status == "failed"
    node.ping()
    node_sync.refresh(cast.node.id)
    sweeping.passes(60)
    work()
    untouched()
    assert ended(adopt(), work).status == "completed"
    sweeping.passes(60)
    work()
    assert node.definition_of(STRANGER)[0] == adopted().name


def test_what_cannot_be_given_back_at_once_is_later(adopt, untouched, node, work, sweeping):  # noqa: F811
    before, asked = node.definition_of(STRANGER), adopt()
    node.fault("adopt", "lost-answer", count=1)
    node.fault("give_back", "refuse", count=1)
    assert ended(asked, work).status == "failed"
    assert node.definition_of(STRANGER) != before
    node.ping()
    sweeping.passes(60)
    work()
    untouched()


def test_the_next_adoption_begins_with_what_the_last_one_left(adopt, told, node, work):  # noqa: F811
    """And nothing of the last one happens after it."""
    asked = adopt()
    node.fault("adopt", "lost-answer", count=1)
    node.fault("give_back", "refuse", count=1)
    assert ended(asked, work).status == "failed"
    node.ping()
    name = node.definition_of(STRANGER)[0]
    assert name != "old-web"
    again = ended(adopt(), work)
    assert (again.status, adopted().name) == ("completed", node.definition_of(STRANGER)[0])
    assert session.scalar(select(func.count()).select_from(Task).where(Task.undo_left)) == 0


def test_what_was_taken_meanwhile_is_found_out_before_the_machine_is_touched(adopt, taken, untouched, node, work):  # noqa: F811
    asked = adopt()
    taken()
    row = ended(asked, work)
    assert (row.error, row.undo) == ("One of the addresses cannot be had.", [])
    taken(None)
    untouched()


def test_what_was_taken_in_the_last_moment_gives_it_back(adopt, taken, untouched, at, work):  # noqa: F811
    """The rows could be made, the machine was defined, and then somebody had the address."""
    asked = adopt()
    with at("adopt", taken, after=True):
        assert ended(asked, work).error == "One of the addresses cannot be had."
    taken(None)
    untouched()


@pytest.mark.parametrize("operation", ["describe", "adopt"])
def test_whoever_takes_over_from_a_dead_worker_begins_anew(adopt, told, node, die, row, work, sweeping, operation):  # noqa: F811
    asked = session.get(Task, adopt().json["data"]["task_id"])
    die(asked, operation)
    sweeping.passes(60)
    work()
    assert (row(asked).status, row(asked).attempt) == ("completed", 2)
    assert node.definition_of(STRANGER)[0] == adopted().name


def test_a_worker_that_died_too_often_leaves_it_as_it_was(adopt, untouched, node, die, row, work, sweeping):  # noqa: F811
    asked = session.get(Task, adopt().json["data"]["task_id"])
    for _ in range(3):
        die(row(asked), "adopt")
        sweeping.passes(60)
    assert row(asked).status == "failed"
    work()
    sweeping.passes(60)
    work()
    untouched()


def test_a_cancelled_adoption_leaves_it_as_it_was(adopt, untouched, as_, at, work):  # noqa: F811
    asked = adopt().json["data"]["task_id"]

    def cancel():
        row = session.get(Task, asked)
        row.cancel_requested_at = row.queued_at
        session.commit()

    with at("adopt", cancel, after=True):
        work()
    assert session.get(Task, asked, populate_existing=True).status == "cancelled"
    untouched()
