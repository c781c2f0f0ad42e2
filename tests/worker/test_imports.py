"""An import that fails at any node call leaves the machine unchanged."""

import pytest
from sqlalchemy import func, select

from panel.core.db import session
from panel.models import Address, Event, Instance, Interface, MeteringRecord, Task
from tests.support.machine_imports import (  # noqa: F401  (fixtures)
    IP,
    UNMANAGED_ID,
    discover,
    discovered_machine,
    import_machine,
    load_imported_instance,
    path,
    unmanaged_machine,
    wait_for_task,
)
from worker.sync import node_sync


def count_import_rows():
    """Count the rows of each table that an import writes."""
    models = (Instance, Interface, MeteringRecord, Event)
    assigned_addresses = session.scalar(select(func.count()).where(Address.interface_id.is_not(None)))
    return [session.scalar(select(func.count()).select_from(model)) for model in models] + [assigned_addresses]


@pytest.fixture
def assert_unchanged(discovered_machine, node):
    """Return a function that checks that the machine, its disks and all rows are unchanged."""
    before = node.get_definition(UNMANAGED_ID), sorted(map(str, node.disks("default"))), count_import_rows()

    def check():
        assert load_imported_instance() is None
        after = node.get_definition(UNMANAGED_ID), sorted(map(str, node.disks("default"))), count_import_rows()
        assert after == before
        assert session.scalar(select(func.count()).select_from(Task).where(Task.rollback_pending)) == 0

    return check


@pytest.fixture
def take_address(cast):
    """Return a function that assigns the guest's address to another instance, or releases it: `take_address(None)`."""
    other = cast.instance()

    def assign(to=other):
        session.scalar(select(Address).where(Address.ip == IP)).interface_id = to and to.interfaces[0].id
        session.commit()

    return assign


@pytest.mark.parametrize("call", ["describe_machine", "import_machine"])
@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_failed_import_call_leaves_machine_unchanged(
    import_machine, assert_unchanged, node, run_tasks, call, kind, cast, manual_reaper
):
    answer = import_machine()
    node.fault(call, kind, count=1)
    assert wait_for_task(answer, run_tasks).status == "failed"
    node.ping()
    node_sync.reconcile(cast.node.id)
    manual_reaper.advance(60)
    run_tasks()
    assert_unchanged()
    assert wait_for_task(import_machine(), run_tasks).status == "completed"
    manual_reaper.advance(60)
    run_tasks()
    assert node.get_definition(UNMANAGED_ID)[0] == load_imported_instance().name


def test_failed_import_revert_is_repeated(import_machine, assert_unchanged, node, run_tasks, manual_reaper):
    before, answer = node.get_definition(UNMANAGED_ID), import_machine()
    node.fault("import_machine", "lost-answer", count=1)
    node.fault("revert_import", "refuse", count=1)
    assert wait_for_task(answer, run_tasks).status == "failed"
    assert node.get_definition(UNMANAGED_ID) != before
    node.ping()
    manual_reaper.advance(60)
    run_tasks()
    assert_unchanged()


def test_import_runs_remaining_rollback_of_previous_import(import_machine, discovered_machine, node, run_tasks):
    """The rollback of the previous import does not run again after it."""
    answer = import_machine()
    node.fault("import_machine", "lost-answer", count=1)
    node.fault("revert_import", "refuse", count=1)
    assert wait_for_task(answer, run_tasks).status == "failed"
    node.ping()
    name = node.get_definition(UNMANAGED_ID)[0]
    assert name != "old-web"
    second_task = wait_for_task(import_machine(), run_tasks)
    assert (second_task.status, load_imported_instance().name) == ("completed", node.get_definition(UNMANAGED_ID)[0])
    assert session.scalar(select(func.count()).select_from(Task).where(Task.rollback_pending)) == 0


def test_import_with_taken_address_fails_before_node_change(
    import_machine, take_address, assert_unchanged, node, run_tasks
):
    answer = import_machine()
    take_address()
    task = wait_for_task(answer, run_tasks)
    assert (task.error, task.rollback_steps) == ("One of the addresses cannot be used.", [])
    take_address(None)
    assert_unchanged()


def test_import_is_reverted_when_address_is_taken_late(
    import_machine, take_address, assert_unchanged, fault_at, run_tasks
):
    """The rows were created and the machine was defined before another instance got the address."""
    answer = import_machine()
    with fault_at("import_machine", take_address, after=True):
        assert wait_for_task(answer, run_tasks).error == "One of the addresses cannot be used."
    take_address(None)
    assert_unchanged()


@pytest.mark.parametrize("operation", ["describe_machine", "import_machine"])
def test_import_of_killed_worker_completes_in_second_attempt(
    import_machine, discovered_machine, node, kill_worker_at, reload_task, run_tasks, manual_reaper, operation
):
    task = session.get(Task, import_machine().json["data"]["task_id"])
    kill_worker_at(task, operation)
    manual_reaper.advance(60)
    run_tasks()
    assert (reload_task(task).status, reload_task(task).attempt) == ("completed", 2)
    assert node.get_definition(UNMANAGED_ID)[0] == load_imported_instance().name


def test_import_after_repeated_worker_loss_leaves_machine_unchanged(
    import_machine, assert_unchanged, node, kill_worker_at, reload_task, run_tasks, manual_reaper
):
    task = session.get(Task, import_machine().json["data"]["task_id"])
    for _ in range(3):
        kill_worker_at(reload_task(task), "import_machine")
        manual_reaper.advance(60)
    assert reload_task(task).status == "failed"
    run_tasks()
    manual_reaper.advance(60)
    run_tasks()
    assert_unchanged()


def test_cancelled_import_leaves_machine_unchanged(import_machine, assert_unchanged, api_as, fault_at, run_tasks):
    task_id = import_machine().json["data"]["task_id"]

    def cancel():
        task = session.get(Task, task_id)
        task.cancel_requested_at = task.queued_at
        session.commit()

    with fault_at("import_machine", cancel, after=True):
        run_tasks()
    assert session.get(Task, task_id, populate_existing=True).status == "cancelled"
    assert_unchanged()
