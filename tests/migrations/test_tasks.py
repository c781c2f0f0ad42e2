"""What workers do in a migration: after every fault, exactly one node has the machine and the row names it."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Task
from panel.services import migrations, tasks
from tests.migrations.node_sync import reload, sync_nodes
from worker.engine import runner
from worker.nodes.base import Disk, GiB, Power
from worker.nodes.simulated import SimulatedNode
from worker.tasks import migrations as migration_tasks


@pytest.fixture(autouse=True)
def short_retries(monkeypatch):
    monkeypatch.setattr(migration_tasks, "MIGRATION_RETRY_INTERVAL_SECONDS", 0.05)


def list_disk_names(node):
    return {disk.name for disk in node.disks("default") if disk.name.startswith("h")}


def list_machine_ids(node):
    return {machine.id for machine in node.machines()}


def test_live_migration_moves_running_instance(
    running_instance, start_migration, node, second_node, second_hypervisor, run_tasks
):
    """INS-11: `migrating` from the request on."""
    read_boots = lambda target: target.state.rows("SELECT boots FROM machines")[0][0]  # noqa: E731
    before, addresses = read_boots(node), [address.ip for address in running_instance.addresses]
    row = start_migration()
    assert (reload(running_instance).state, row.kind) == ("migrating", "live")
    run_tasks()
    instance = reload(running_instance)
    assert (instance.state, instance.hypervisor_id, instance.disks[0].storage.hypervisor_id) == (
        "running",
        second_hypervisor.id,
        second_hypervisor.id,
    )
    assert (list_machine_ids(node), list_machine_ids(second_node), read_boots(second_node)) == (
        set(),
        {running_instance.id},
        before,
    )
    assert (list_disk_names(node), len(list_disk_names(second_node))) == (set(), 2)
    assert (reload(row).status, reload(row).undeleted_source_disks, reload(row).cleanup_pending) == (
        "completed",
        [],
        False,
    )
    assert [address.ip for address in instance.addresses] == addresses


def test_cold_migration_keeps_instance_stopped(
    running_instance, start_migration, node, second_node, second_hypervisor, run_tasks
):
    node.power_off(running_instance.id)
    sync_nodes(running_instance.hypervisor)
    row = start_migration()
    assert row.kind == "cold"
    run_tasks()
    assert (reload(running_instance).state, second_node.power(running_instance.id)) == ("stopped", Power.off)
    assert reload(running_instance).hypervisor_id == second_hypervisor.id


def test_polls_do_not_report_migrating_machine_missing(
    running_instance, start_migration, node, second_node, second_hypervisor, run_tasks
):
    start_migration()
    second_node.prepare_pool("default", "/srv/b")
    node.delete(running_instance.id)
    sync_nodes(running_instance.hypervisor, second_hypervisor)
    assert (reload(running_instance).missing_on_node, reload(running_instance).state) == (False, "migrating")


def test_migration_to_full_target_changes_nothing(running_instance, start_migration, node, second_node, run_tasks):
    second_node.fault("create_disk", "full")
    row = start_migration()
    run_tasks()
    instance = reload(running_instance)
    assert (instance.state, instance.migrating, instance.hypervisor_id) == (
        "running",
        False,
        running_instance.hypervisor_id,
    )
    assert (
        reload(row).status,
        list_machine_ids(node),
        list_machine_ids(second_node),
        list_disk_names(second_node),
    ) == (
        "failed",
        {running_instance.id},
        set(),
        set(),
    )
    assert "enough space" in reload(row).error
    assert len(list_disk_names(node)) == 2


@pytest.mark.parametrize("operation", ["has_image", "create_disk", "ping", "clean_up_target"])
def test_migration_to_silent_target_leaves_machine_on_source(
    running_instance, start_migration, node, second_node, run_tasks, operation
):
    second_node.fault(operation, "silent", count=1)
    if operation == "clean_up_target":
        second_node.fault("create_disk", "refuse", count=1)
    row = start_migration()
    run_tasks()
    assert (reload(running_instance).state, list_machine_ids(node), reload(row).status) == (
        "running",
        {running_instance.id},
        "failed",
    )
    second_node.clear()
    for task in session.query(Task).filter(Task.rollback_pending):
        runner.run(task.id, "sweeper")
    assert list_disk_names(second_node) == set()


def test_refused_migration_is_rolled_back(running_instance, start_migration, node, second_node, run_tasks):
    node.fault("migrate", "refuse")
    row = start_migration()
    run_tasks()
    assert (reload(running_instance).state, node.power(running_instance.id), reload(row).status) == (
        "running",
        Power.on,
        "failed",
    )
    assert (list_machine_ids(second_node), list_disk_names(second_node)) == (set(), set())


def test_migration_with_lost_answer_completes(
    running_instance, start_migration, node, second_node, second_hypervisor, run_tasks
):
    node.fault("migrate", "lost-answer", count=1)
    row = start_migration()
    run_tasks()
    assert (reload(row).status, reload(running_instance).hypervisor_id, reload(running_instance).state) == (
        "completed",
        second_hypervisor.id,
        "running",
    )
    assert (list_machine_ids(node), list_machine_ids(second_node)) == (set(), {running_instance.id})


def test_migration_waits_for_silent_nodes(
    running_instance, start_migration, node, second_node, second_hypervisor, run_tasks, monkeypatch
):
    """The migration is done, its answer is lost, and then neither node answers for a while."""
    node.fault("migrate", "lost-answer", count=1)
    node.fault("power", "silent", count=2)
    second_node.fault("power", "silent", count=2)
    row = start_migration()
    run_tasks()
    assert (reload(row).status, reload(running_instance).hypervisor_id) == ("completed", second_hypervisor.id)


def test_source_is_cleaned_up_later_after_node_loss(
    running_instance, start_migration, node, second_node, second_hypervisor, run_tasks, api_as
):
    node.fault("delete_disk", "silent")
    row = start_migration()
    run_tasks()
    assert (reload(row).status, reload(running_instance).hypervisor_id, reload(row).cleanup_pending) == (
        "completed",
        second_hypervisor.id,
        True,
    )
    assert len(list_disk_names(node)) == 2
    node.clear()
    node.ping()
    assert api_as("admin", "POST", f"/api/v1/migration/{row.id}/complete").status_code == 200
    run_tasks()
    assert (list_disk_names(node), reload(row).cleanup_pending) == (set(), False)
    assert api_as("admin", "POST", f"/api/v1/migration/{row.id}/complete").status_code == 409


def test_running_migration_can_be_cancelled(
    running_instance, start_migration, node, second_node, run_tasks, monkeypatch
):
    row = start_migration()
    real = SimulatedNode._report_progress

    def cancel_and_report(self, definition, progress):
        tasks.cancel(session.get(Task, row.task_id))
        session.commit()
        real(self, definition, progress)

    monkeypatch.setattr(SimulatedNode, "_report_progress", cancel_and_report)
    run_tasks()
    assert (reload(row).status, reload(running_instance).state, list_machine_ids(second_node)) == (
        "cancelled",
        "running",
        set(),
    )
    assert list_disk_names(second_node) == set()


def test_completed_move_ignores_late_cancellation(
    running_instance, start_migration, node, second_node, second_hypervisor, run_tasks, monkeypatch
):
    """Otherwise the row would name the wrong hypervisor."""
    row = start_migration()
    real = SimulatedNode.migrate

    def migrate_and_cancel(self, *args):
        real(self, *args)
        tasks.cancel(session.get(Task, row.task_id))
        session.commit()

    monkeypatch.setattr(SimulatedNode, "migrate", migrate_and_cancel)
    run_tasks()
    assert (reload(row).status, reload(running_instance).hypervisor_id, list_machine_ids(second_node)) == (
        "completed",
        second_hypervisor.id,
        {running_instance.id},
    )


class WorkerKilled(BaseException):
    """Ends a worker as SIGKILL does."""


KILL_POINTS = [
    ("create_disk", "before"),
    ("create_disk", "after"),
    ("copy_media", "after"),
    ("migrate", "before"),
    ("_receive", "after"),
    ("_take_over", "before"),
    ("migrate", "after"),
    ("delete_disk", "after"),
]


@pytest.mark.parametrize(("step", "when"), KILL_POINTS)
@pytest.mark.parametrize("is_running", [True, False])
def test_migration_of_killed_worker_is_completed_by_another(
    running_instance,
    start_migration,
    node,
    second_node,
    second_hypervisor,
    run_tasks,
    monkeypatch,
    step,
    when,
    is_running,
):
    if not is_running:
        node.power_off(running_instance.id)
        sync_nodes(running_instance.hypervisor)
    row = start_migration()
    real = getattr(SimulatedNode, step)

    def kill_worker(self, *args, **options):
        if when == "after":
            real(self, *args, **options)
        raise WorkerKilled

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedNode, step, kill_worker)
        with pytest.raises(WorkerKilled):
            runner.run(row.task_id, "worker that dies")
    session.rollback()
    task = session.get(Task, row.task_id, populate_existing=True)
    task.status, task.worker = "queued", None
    session.commit()
    assert list_machine_ids(node) | list_machine_ids(second_node) == {running_instance.id}
    runner.run(row.task_id, "worker that lives")
    instance = reload(running_instance)
    assert (instance.state, instance.hypervisor_id) == ("running" if is_running else "stopped", second_hypervisor.id)
    assert (list_machine_ids(node), list_machine_ids(second_node), reload(row).status) == (
        set(),
        {running_instance.id},
        "completed",
    )
    assert second_node.power(running_instance.id) is (Power.on if is_running else Power.off)
    assert (list_disk_names(node), len(list_disk_names(second_node))) == (set(), 2)


def test_evacuation_migrates_all_instances(running_instance, cast, node, second_node, second_hypervisor, run_tasks):
    undeployed_instance = cast.instance()
    undeployed_instance.hypervisor_id = cast.node.id
    session.commit()
    parent = migrations.evacuate(reload(running_instance.hypervisor), actor="admin")
    session.commit()
    for row in session.scalars(migrations.listing(parent_task_id=parent.id)).all():
        runner.run(row.task_id, "a worker")
    run_tasks()
    assert (reload(running_instance).hypervisor_id, reload(undeployed_instance).hypervisor_id) == (
        second_hypervisor.id,
        second_hypervisor.id,
    )
    assert reload(undeployed_instance).disks[0].storage.hypervisor_id == second_hypervisor.id
    assert (reload(parent).status, session.get(Hypervisor, cast.node.id).maintenance) == ("completed", True)
    assert list_machine_ids(node) == set()


def test_evacuation_lists_instances_without_target(running_instance, second_hypervisor, run_tasks):
    reload(second_hypervisor).locked = True
    session.commit()
    parent = migrations.evacuate(reload(running_instance.hypervisor), actor="admin")
    session.commit()
    assert parent.arguments["refused"].keys() == {running_instance.name}
    run_tasks()
    assert (reload(parent).status, reload(running_instance).state) == ("failed", "running")


def test_migration_does_not_replace_existing_disk_of_same_name(
    running_instance, start_migration, node, second_node, run_tasks
):
    """Imported machines keep the disk names that others chose."""
    node.create_disk(Disk("default", "web.qcow2", GiB))
    running_instance.disks[0].name = "web.qcow2"
    session.commit()
    second_node.prepare_pool("default", "/srv/b")
    second_node.create_disk(Disk("default", "web.qcow2", 3 * GiB))
    row = start_migration()
    run_tasks()
    assert (reload(row).status, "would be replaced" in reload(row).error) == ("failed", True)
    assert Disk("default", "web.qcow2", 3 * GiB) in second_node.disks("default")
    assert reload(running_instance).hypervisor_id == running_instance.hypervisor_id
    second_node.delete_disk("default", "web.qcow2")
    row = start_migration()
    run_tasks()
    assert reload(row).status == "completed", reload(row).error
    assert "web.qcow2" in {disk.name for disk in second_node.disks("default")}
