"""An adoption that fails, at whatever call, leaves the machine what it was."""

import pytest
from sqlalchemy import func, select

from panel.core.db import session
from panel.models import Address, Event, Instance, Interface, MeteringRecord, Task
from tests.hypervisors.test_imports import (  # noqa: F401  (fixtures)
    IP,
    UNMANAGED_ID,
    discover,
    discovered_machine,
    import_machine,
    imported_instance,
    path,
    unmanaged_machine,
    wait_for_task,
)
from worker.sync import node_sync


def count_import_rows():
    """What an adoption writes, counted."""
    kinds = (Instance, Interface, MeteringRecord, Event)
    held = session.scalar(select(func.count()).where(Address.interface_id.is_not(None)))
    return [session.scalar(select(func.count()).select_from(kind)) for kind in kinds] + [held]


@pytest.fixture
def assert_untouched(discovered_machine, node):
    """Says that the machine, its disks and all rows are as they were."""
    before = node.definition_of(UNMANAGED_ID), sorted(map(str, node.disks("default"))), count_import_rows()

    def check():
        assert imported_instance() is None
        found = node.definition_of(UNMANAGED_ID), sorted(map(str, node.disks("default"))), count_import_rows()
        assert found == before
        assert session.scalar(select(func.count()).select_from(Task).where(Task.rollback_pending)) == 0

    return check


@pytest.fixture
def take_address(cast):
    """Gives the guest's address to another instance, and takes it back."""
    other = cast.instance()

    def give(to=other):
        session.scalar(select(Address).where(Address.ip == IP)).interface_id = to and to.interfaces[0].id
        session.commit()

    return give


@pytest.mark.parametrize("call", ["describe_machine", "import_machine"])
@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_a_call_that_fails_leaves_it_as_it_was(
    import_machine, assert_untouched, node, run_tasks, call, kind, cast, manual_reaper
):
    asked = import_machine()
    node.fault(call, kind, count=1)
    assert wait_for_task(asked, run_tasks).status == "failed"
    node.ping()
    node_sync.reconcile(cast.node.id)
    manual_reaper.advance(60)
    run_tasks()
    assert_untouched()
    assert wait_for_task(import_machine(), run_tasks).status == "completed"
    manual_reaper.advance(60)
    run_tasks()
    assert node.definition_of(UNMANAGED_ID)[0] == imported_instance().name


def test_a_failed_revert_of_an_import_is_repeated(import_machine, assert_untouched, node, run_tasks, manual_reaper):
    before, asked = node.definition_of(UNMANAGED_ID), import_machine()
    node.fault("import_machine", "lost-answer", count=1)
    node.fault("revert_import", "refuse", count=1)
    assert wait_for_task(asked, run_tasks).status == "failed"
    assert node.definition_of(UNMANAGED_ID) != before
    node.ping()
    manual_reaper.advance(60)
    run_tasks()
    assert_untouched()


def test_the_next_adoption_begins_with_what_the_last_one_left(import_machine, discovered_machine, node, run_tasks):
    """And nothing of the last one happens after it."""
    asked = import_machine()
    node.fault("import_machine", "lost-answer", count=1)
    node.fault("revert_import", "refuse", count=1)
    assert wait_for_task(asked, run_tasks).status == "failed"
    node.ping()
    name = node.definition_of(UNMANAGED_ID)[0]
    assert name != "old-web"
    again = wait_for_task(import_machine(), run_tasks)
    assert (again.status, imported_instance().name) == ("completed", node.definition_of(UNMANAGED_ID)[0])
    assert session.scalar(select(func.count()).select_from(Task).where(Task.rollback_pending)) == 0


def test_what_was_taken_meanwhile_is_found_out_before_the_machine_is_touched(
    import_machine, take_address, assert_untouched, node, run_tasks
):
    asked = import_machine()
    take_address()
    row = wait_for_task(asked, run_tasks)
    assert (row.error, row.rollback_steps) == ("One of the addresses cannot be used.", [])
    take_address(None)
    assert_untouched()


def test_what_was_taken_in_the_last_moment_gives_it_back(
    import_machine, take_address, assert_untouched, fault_at, run_tasks
):
    """The rows could be made, the machine was defined, and then somebody had the address."""
    asked = import_machine()
    with fault_at("import_machine", take_address, after=True):
        assert wait_for_task(asked, run_tasks).error == "One of the addresses cannot be used."
    take_address(None)
    assert_untouched()


@pytest.mark.parametrize("operation", ["describe_machine", "import_machine"])
def test_whoever_takes_over_from_a_dead_worker_begins_anew(
    import_machine, discovered_machine, node, kill_worker_at, reload_task, run_tasks, manual_reaper, operation
):
    asked = session.get(Task, import_machine().json["data"]["task_id"])
    kill_worker_at(asked, operation)
    manual_reaper.advance(60)
    run_tasks()
    assert (reload_task(asked).status, reload_task(asked).attempt) == ("completed", 2)
    assert node.definition_of(UNMANAGED_ID)[0] == imported_instance().name


def test_a_worker_that_died_too_often_leaves_it_as_it_was(
    import_machine, assert_untouched, node, kill_worker_at, reload_task, run_tasks, manual_reaper
):
    asked = session.get(Task, import_machine().json["data"]["task_id"])
    for _ in range(3):
        kill_worker_at(reload_task(asked), "import_machine")
        manual_reaper.advance(60)
    assert reload_task(asked).status == "failed"
    run_tasks()
    manual_reaper.advance(60)
    run_tasks()
    assert_untouched()


def test_a_cancelled_adoption_leaves_it_as_it_was(import_machine, assert_untouched, api_as, fault_at, run_tasks):
    asked = import_machine().json["data"]["task_id"]

    def cancel():
        row = session.get(Task, asked)
        row.cancel_requested_at = row.queued_at
        session.commit()

    with fault_at("import_machine", cancel, after=True):
        run_tasks()
    assert session.get(Task, asked, populate_existing=True).status == "cancelled"
    assert_untouched()
