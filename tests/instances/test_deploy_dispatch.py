"""The operators' create with a deploy: whether it reached the node is said truthfully (specification 7.2)."""

import pytest

from panel.core.db import session
from panel.models import Instance, Task
from panel.workflows import waiting
from tests.conftest import queued_calls, run_queued_calls

NEW_INSTANCE_PAGE = "/admin/instances/new"
SCRIPT = {"Accept": "application/json"}


@pytest.fixture
def order(cast):
    wanted = {"owner": "owner@example.com", "location_id": cast.location.id, "plan_id": cast.plan.id}
    return {**wanted, "image_id": cast.image.id}


@pytest.fixture
def inline_workers(monkeypatch):
    """Somebody works while a request waits."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


@pytest.fixture
def no_workers(monkeypatch):
    """No worker runs, and the time of a request that waits passes quickly."""
    times = iter(range(1000))
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(times))


@pytest.fixture
def node(short_deadline_node):
    return short_deadline_node


def rows():
    return session.query(Instance).one(), session.query(Task).filter_by(kind="instance_deploy").one()


def test_a_program_gets_the_instance_and_its_task(browser_as, order, inline_workers):
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data=order, headers=SCRIPT)
    instance, task = rows()
    assert (answer.status_code, answer.json["success"], answer.json["task_id"]) == (200, True, task.id)
    assert (answer.json["instance"]["id"], answer.json["instance"]["state"]) == (instance.id, "running")
    assert answer.json["password"]


def test_a_deploy_that_no_worker_took_is_unconfirmed_and_kept(browser_as, order, no_workers, run_tasks, monkeypatch):
    """INS-93"""
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data=order, headers=SCRIPT)
    instance, task = rows()
    assert (answer.status_code, answer.json["reason"]) == (503, "deploy_dispatch_unconfirmed")
    assert (answer.json["success"], answer.json["task_id"]) == (False, task.id)
    assert (answer.json["instance"]["id"], answer.json["instance"]["state"]) == (instance.id, "pending")
    monkeypatch.undo()
    run_tasks()
    assert session.get(Instance, instance.id).state == "running"


@pytest.mark.parametrize("operation", ["*", "has_image", "create_disk", "define", "start"])
def test_a_node_that_drops_its_answer_leaves_it_unconfirmed(browser_as, order, inline_workers, node, operation):
    """INS-93: whatever the call was whose answer was lost."""
    node.fault(operation, "lost-answer")
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data=order, headers=SCRIPT)
    instance, task = rows()
    assert (answer.status_code, answer.json["reason"]) == (503, "deploy_dispatch_unconfirmed")
    assert (answer.json["task_id"], answer.json["instance"]["id"]) == (task.id, instance.id)
    assert task.status == "failed"


def test_the_page_shows_the_ids_and_the_password(browser_as, order, no_workers):
    """INS-93: in the browser."""
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data=order)
    instance, task = rows()
    assert answer.status_code == 503
    for shown in (instance.id, task.id, "deploy_dispatch_unconfirmed", "Root password"):
        assert shown in answer.text


def test_a_node_that_says_no_has_answered(browser_as, order, inline_workers, node):
    """It is known how that ended: the instance is there and says why it has no system."""
    node.fault("create_disk", "full")
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data={**order, "password": "a good password"})
    instance, task = rows()
    assert (answer.status_code, task.status) == (303, "failed")
    assert "not have enough space" in instance.last_error


def test_without_an_image_nothing_is_waited_for(browser_as, order, no_workers):
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data={**order, "image_id": ""}, headers=SCRIPT)
    assert (answer.status_code, answer.json["task_id"], queued_calls) == (200, None, [])


def test_a_program_is_told_the_fields(browser_as, order):
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data={**order, "owner": "nobody@example.com"}, headers=SCRIPT)
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"owner"})
