"""Tasks that are stuck and that an operator gives up."""

import pytest

from panel.core import clock
from panel.core.db import new_id, session
from panel.models import AuditEntry, Instance, Task
from panel.services import instances
from worker.engine import runner as tasks
from worker.nodes.base import Disk


@pytest.fixture
def order(cast):
    made, _ = instances.deploy(cast.instance(), image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    return made


@pytest.fixture
def close_task(api_as):
    return lambda task: api_as("admin", "POST", f"/api/v1/task/{task.id}/mark-failed")


def test_a_task_that_waits_ends_as_failed_and_its_resource_knows(close_task, order, run_tasks):
    answer = close_task(order)
    assert (answer.status_code, answer.json["data"]["cancellable"]) == (200, False)
    run_tasks()
    ended = session.get(Task, order.id)
    assert (ended.status, ended.error, ended.secret) == ("failed", "An operator marked it as failed.", None)
    instance = session.get(Instance, order.resource_id)
    assert (instance.deployed, instance.last_error) == (False, "An operator marked it as failed.")
    entry = session.query(AuditEntry).one()
    assert (entry.object_type, entry.object_id) == ("instance", instance.id)


def test_a_task_of_a_hanging_worker_can_be_marked_failed(close_task, order, run_tasks, node, cast):
    """What it had begun is taken back by the next worker, and the one that hung writes nothing more."""
    node.create_disk(Disk("default", "left.qcow2", 1024**3))
    order.status, order.worker, order.started_at, order.heartbeat_at = "running", "hangs", clock.now(), clock.now()
    order.rollback_steps = [["delete_disk", "default", "left.qcow2"]]
    session.commit()
    hung = tasks.TaskContext(session.get(Task, order.id), "hangs")
    close_task(order)
    with pytest.raises(tasks.LeaseLost):
        hung.step("Going on", 50)
    session.rollback()
    run_tasks()
    assert session.get(Task, order.id).status == "failed"
    assert "left.qcow2" not in [disk.name for disk in node.disks("default")]


def test_one_that_can_no_longer_be_cancelled(api_as, close_task, order, run_tasks):
    run_tasks()
    api_as("admin", "DELETE", f"/api/v1/instance/{order.resource_id}")
    task = session.query(Task).filter_by(kind="instance_destroy").one()
    assert api_as("admin", "POST", f"/api/v1/task/{task.id}/cancel").json["reason"] == "not_cancellable"
    assert close_task(task).status_code == 200
    run_tasks()
    assert session.get(Task, task.id).status == "failed"
    assert session.get(Instance, order.resource_id).state == "running"


def test_one_that_has_ended_stays_as_it_is(api_as, close_task, order, run_tasks):
    run_tasks()
    assert close_task(order).json["reason"] == "task_ended"
    assert session.get(Task, order.id).status == "completed"
    assert api_as("admin", "POST", f"/api/v1/task/{new_id()}/mark-failed").status_code == 404


def test_mark_failed_by_page(browser_as, cast, order, run_tasks):
    operator, place = browser_as("admin"), f"/admin/tasks/{order.id}"
    assert f'action="{place}/mark-failed"' in operator.get(place).text
    operator.post(f"{place}/mark-failed")
    assert f'action="{place}/mark-failed"' not in operator.get(place).text
    run_tasks()
    assert "An operator marked it as failed." in operator.get(place).text
    cast.admin.operator_role = "read_only"
    session.commit()
    assert browser_as("admin").post(f"{place}/mark-failed").status_code == 403
