"""Operators create and deploy in one request: the answer tells whether the node confirmed it."""

import pytest

from panel.core.db import session
from panel.models import Instance, Task
from panel.workflows import waiting
from tests.support.task_queue import queued_calls, run_queued_calls

NEW_INSTANCE_PAGE = "/admin/instances/new"
JSON_HEADERS = {"Accept": "application/json"}


@pytest.fixture
def create_form(cast):
    form_data = {"owner": "owner@example.com", "location_id": cast.location.id, "plan_id": cast.plan.id}
    return {**form_data, "image_id": cast.image.id}


@pytest.fixture
def inline_workers(monkeypatch):
    """Run queued calls while a request waits."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


@pytest.fixture
def no_workers(monkeypatch):
    """Run no worker, and let a waiting request time out at once."""
    times = iter(range(1000))
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(times))


@pytest.fixture
def node(short_deadline_node):
    return short_deadline_node


def get_instance_and_task():
    return session.query(Instance).one(), session.query(Task).filter_by(kind="instance_deploy").one()


def test_json_answer_has_instance_and_task(browser_as, create_form, inline_workers):
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data=create_form, headers=JSON_HEADERS)
    instance, task = get_instance_and_task()
    assert (answer.status_code, answer.json["success"], answer.json["task_id"]) == (200, True, task.id)
    assert (answer.json["instance"]["id"], answer.json["instance"]["state"]) == (instance.id, "running")
    assert answer.json["password"]


def test_unclaimed_deploy_is_unconfirmed_and_stays(browser_as, create_form, no_workers, run_tasks, monkeypatch):
    """INS-93"""
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data=create_form, headers=JSON_HEADERS)
    instance, task = get_instance_and_task()
    assert (answer.status_code, answer.json["reason"]) == (503, "deploy_dispatch_unconfirmed")
    assert (answer.json["success"], answer.json["task_id"]) == (False, task.id)
    assert (answer.json["instance"]["id"], answer.json["instance"]["state"]) == (instance.id, "pending")
    monkeypatch.undo()
    run_tasks()
    assert session.get(Instance, instance.id).state == "running"


@pytest.mark.parametrize("operation", ["*", "has_image", "create_disk", "define", "start"])
def test_lost_node_answer_leaves_deploy_unconfirmed(browser_as, create_form, inline_workers, node, operation):
    """INS-93: whichever node call lost its answer."""
    node.fault(operation, "lost-answer")
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data=create_form, headers=JSON_HEADERS)
    instance, task = get_instance_and_task()
    assert (answer.status_code, answer.json["reason"]) == (503, "deploy_dispatch_unconfirmed")
    assert (answer.json["task_id"], answer.json["instance"]["id"]) == (task.id, instance.id)
    assert task.status == "failed"


def test_unconfirmed_deploy_page_shows_ids_and_password(browser_as, create_form, no_workers):
    """INS-93, on the page."""
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data=create_form)
    instance, task = get_instance_and_task()
    assert answer.status_code == 503
    for shown in (instance.id, task.id, "deploy_dispatch_unconfirmed", "Root password"):
        assert shown in answer.text


def test_refusal_by_node_is_confirmed_failure(browser_as, create_form, inline_workers, node):
    """The outcome is known: the instance exists and its last error has the reason."""
    node.fault("create_disk", "full")
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data={**create_form, "password": "a good password"})
    instance, task = get_instance_and_task()
    assert (answer.status_code, task.status) == (303, "failed")
    assert "not have enough space" in instance.last_error


def test_create_without_image_does_not_wait(browser_as, create_form, no_workers):
    answer = browser_as("admin").post(NEW_INSTANCE_PAGE, data={**create_form, "image_id": ""}, headers=JSON_HEADERS)
    assert (answer.status_code, answer.json["task_id"], queued_calls) == (200, None, [])


def test_json_answer_names_invalid_fields(browser_as, create_form):
    answer = browser_as("admin").post(
        NEW_INSTANCE_PAGE, data={**create_form, "owner": "nobody@example.com"}, headers=JSON_HEADERS
    )
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"owner"})
