"""How many backups and restores run on a hypervisor at the same time, and how fast."""

import pytest

from panel.core import jobs
from panel.core.db import session
from panel.models import Task
from panel.services import backup_limits, settings
from tests.support.task_queue import queued_calls
from worker.backups.restoring import StoredDisk
from worker.engine import claiming, runner
from worker.tasks import instance_backups


@pytest.fixture
def add_task(cast):
    """Return a function that enqueues a task of a new instance."""

    def add(kind="backup_create", lock="storage", resource_type="instance", **arguments):
        instance = cast.instance()
        task = jobs.enqueue(
            kind,
            resource_type,
            instance,
            lock=lock,
            actor="test",
            hypervisor_id=instance.hypervisor_id,
            arguments=arguments,
        )
        session.commit()
        return task

    return add


def is_claimed(task):
    return claiming.claim(task.id, task.id) is not None


def end(task):
    """End the task as its worker does; return the ids of the tasks of which workers are notified."""
    work = runner.TaskContext(task, task.id)
    runner.finish(work, "completed", stage="Done")
    queued_calls.clear()
    if not work.nothing_queued:
        claiming.notify_waiting(task)
    return [task_id for function, ids in queued_calls if function == "worker.engine.runner.run" for task_id in ids]


def test_node_runs_a_limited_number_of_transfers(cast, add_task):
    cast.node.max_tasks = 10
    settings.update({"backup_tasks_per_hypervisor": 2})
    kinds = ("backup_create", "storage"), ("volume_backup_restore", "light"), ("backup_restore", "exclusive")
    first, second, third = (add_task(kind, lock) for kind, lock in kinds)
    other = add_task("disk_add", "exclusive")
    assert [is_claimed(task) for task in (first, second, third, other)] == [True, True, False, True]
    assert third.id not in session.scalars(claiming.select_runnable()).all()
    assert third.id in end(second), "the end of a light transfer notifies the next one"
    assert third.id in session.scalars(claiming.select_runnable()).all()
    assert is_claimed(third)


def test_transfer_waits_for_the_task_before_it_without_counting(cast, add_task):
    """Otherwise it would take the place of a task for which it waits."""
    settings.update({"backup_tasks_per_hypervisor": 1})
    earlier = add_task("volume_detach", "light", "volume")
    backup = add_task("volume_backup", after=earlier.id)
    assert not is_claimed(backup)
    assert is_claimed(earlier)
    assert not is_claimed(backup)
    assert backup.id in end(earlier), "it is a task of another resource"
    assert is_claimed(backup)


def test_speed_is_shared(destination):
    mebibyte = backup_limits.MEBIBYTE
    assert backup_limits.compute_speed(destination) == 100 * mebibyte
    settings.update({"backup_tasks_per_hypervisor": 4, "backup_bandwidth_per_hypervisor": 100})
    assert backup_limits.compute_speed(destination) == 25 * mebibyte
    destination.bandwidth_limit = 10
    assert backup_limits.compute_speed(destination) == 10 * mebibyte
    settings.update({"backup_bandwidth_per_hypervisor": 0})
    assert backup_limits.compute_speed(destination) == 10 * mebibyte
    destination.bandwidth_limit = 0
    assert backup_limits.compute_speed(destination) == 0


def test_backups_and_restores_use_the_speed(api_as, path, back_up, guest, monkeypatch, run_tasks):
    guest.write("before")
    settings.update({"backup_tasks_per_hypervisor": 1, "backup_bandwidth_per_hypervisor": 64})
    session.commit()
    speeds = []
    real_backup, real_init = instance_backups.backup_machine, StoredDisk.__init__

    def backup_machine(node, repository, request, progress):
        speeds.append(request.bytes_per_second)
        return real_backup(node, repository, request, progress)

    def init(disk, repository, entry, bytes_per_second=0):
        speeds.append(bytes_per_second)
        real_init(disk, repository, entry, bytes_per_second)

    monkeypatch.setattr(instance_backups, "backup_machine", backup_machine)
    monkeypatch.setattr(StoredDisk, "__init__", init)
    backup = back_up()
    answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore", json={})
    run_tasks()
    assert session.get(Task, answer.json["task_id"], populate_existing=True).status == "completed"
    assert speeds == [64 * backup_limits.MEBIBYTE] * 2


@pytest.mark.parametrize(
    ("name", "value"), [("backup_tasks_per_hypervisor", 0), ("backup_bandwidth_per_hypervisor", -1)]
)
def test_limits_are_checked(api_as, name, value):
    answer = api_as("admin", "POST", "/api/v1/system/settings", json={name: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [name])
