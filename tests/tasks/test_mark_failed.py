"""Operators mark stuck tasks as failed."""

import pytest

from panel.core import clock
from panel.core.db import generate_id, session
from panel.models import AuditEntry, Instance, Task
from panel.services import instances
from worker.engine import runner
from worker.nodes.base import Disk


@pytest.fixture
def deploy_task(cast):
    task, _ = instances.deploy(cast.instance(), image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    return task


@pytest.fixture
def close_task(api_as):
    return lambda task: api_as("admin", "POST", f"/api/v1/task/{task.id}/mark-failed")


def test_waiting_task_is_marked_failed_with_its_instance(close_task, deploy_task, run_tasks):
    answer = close_task(deploy_task)
    assert (answer.status_code, answer.json["data"]["cancellable"]) == (200, False)
    run_tasks()
    task = session.get(Task, deploy_task.id)
    assert (task.status, task.error, task.secret) == ("failed", "An operator marked it as failed.", None)
    instance = session.get(Instance, deploy_task.resource_id)
    assert (instance.deployed, instance.last_error) == (False, "An operator marked it as failed.")
    entry = session.query(AuditEntry).one()
    assert (entry.object_type, entry.object_id) == ("instance", instance.id)


def test_task_of_hanging_worker_is_marked_failed(close_task, deploy_task, run_tasks, node, cast):
    """The next worker rolls it back, and the hanging worker writes nothing more."""
    node.create_disk(Disk("default", "left.qcow2", 1024**3))
    deploy_task.status, deploy_task.worker, deploy_task.started_at, deploy_task.heartbeat_at = (
        "running",
        "hangs",
        clock.now(),
        clock.now(),
    )
    deploy_task.rollback_steps = [["delete_disk", "default", "left.qcow2"]]
    session.commit()
    task_context = runner.TaskContext(session.get(Task, deploy_task.id), "hangs")
    close_task(deploy_task)
    with pytest.raises(runner.LeaseLost):
        task_context.step("Going on", 50)
    session.rollback()
    run_tasks()
    assert session.get(Task, deploy_task.id).status == "failed"
    assert "left.qcow2" not in [disk.name for disk in node.disks("default")]


def test_task_that_cannot_be_cancelled_is_marked_failed(api_as, close_task, deploy_task, run_tasks):
    run_tasks()
    api_as("admin", "DELETE", f"/api/v1/instance/{deploy_task.resource_id}")
    task = session.query(Task).filter_by(kind="instance_destroy").one()
    assert api_as("admin", "POST", f"/api/v1/task/{task.id}/cancel").json["reason"] == "not_cancellable"
    assert close_task(task).status_code == 200
    run_tasks()
    assert session.get(Task, task.id).status == "failed"
    assert session.get(Instance, deploy_task.resource_id).state == "running"


def test_ended_task_cannot_be_marked_failed(api_as, close_task, deploy_task, run_tasks):
    run_tasks()
    assert close_task(deploy_task).json["reason"] == "task_ended"
    assert session.get(Task, deploy_task.id).status == "completed"
    assert api_as("admin", "POST", f"/api/v1/task/{generate_id()}/mark-failed").status_code == 404


def test_task_page_marks_task_failed(browser_as, cast, deploy_task, run_tasks):
    operator, path = browser_as("admin"), f"/admin/tasks/{deploy_task.id}"
    assert f'hx-post="{path}/mark-failed"' in operator.get(path).text
    operator.post(f"{path}/mark-failed")
    assert f'hx-post="{path}/mark-failed"' not in operator.get(path).text
    run_tasks()
    assert "An operator marked it as failed." in operator.get(path).text
    cast.admin.operator_role = "read_only"
    session.commit()
    assert browser_as("admin").post(f"{path}/mark-failed").status_code == 403
