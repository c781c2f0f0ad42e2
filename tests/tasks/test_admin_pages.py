"""Tasks on the operators' pages."""

import pytest

from panel.core.db import session
from panel.services import instances
from tests.support.html_pages import PARTIAL_HEADERS

TASKS_PATH = "/admin/tasks"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


@pytest.fixture
def task(cast):
    row, _ = instances.deploy(cast.instance(), image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    return row


def fail_task(task):
    task.status, task.error, task.error_detail = "failed", "There is not enough room.", "virsh: No space left on device"
    session.commit()


def test_error_detail_is_shown_only_to_operators(operator, browser_as, task):
    fail_task(task)
    page = operator.get(f"{TASKS_PATH}/{task.id}").text
    assert "There is not enough room." in page
    assert "No space left on device" in page
    assert "node-1" in page
    assert "owner@example.com" in page
    assert "No space left on device" not in browser_as("owner").get(f"/tasks/{task.id}").text
    assert "No space left on device" in operator.get(f"/admin/instances/{task.resource_id}").text


def test_admin_task_list_filters(operator, cast, task):
    other_task, _ = instances.deploy(cast.instance("outsider"), image_id=cast.image.id, actor="outsider@example.com")
    fail_task(other_task)
    get_list = lambda query: operator.get(f"{TASKS_PATH}?{query}", headers=PARTIAL_HEADERS).text  # noqa: E731
    assert task.id in get_list("")
    assert other_task.id in get_list("")
    assert (task.id in get_list("status=failed"), other_task.id in get_list("status=failed")) == (False, True)
    assert (task.id in get_list("status=open"), other_task.id in get_list("status=open")) == (True, False)
    assert task.id in get_list(f"search={task.resource_name}")
    assert "No failed tasks" in get_list("status=failed&search=zzz")
    assert operator.get(TASKS_PATH).text.index(">Failed<") < operator.get(TASKS_PATH).text.index(">Completed<")


def test_task_page_remains_after_instance_is_destroyed(operator, cast, task, run_tasks):
    instances.destroy(instances.get(task.resource_id), actor="test")
    session.commit()
    run_tasks()
    page = operator.get(f"{TASKS_PATH}/{task.id}")
    assert page.status_code == 200
    assert f"/admin/instances/{task.resource_id}" not in page.text


def test_admin_page_cancels_task(operator, task):
    answer = operator.post(f"{TASKS_PATH}/{task.id}/cancel", headers=PARTIAL_HEADERS)
    assert answer.headers["HX-Trigger"] == "changed"
    assert task.cancel_requested_at
    assert operator.post(f"{TASKS_PATH}/{task.id}/cancel").status_code == 409


def test_admin_task_list_query_count_is_constant(operator, cast, task, queries):
    operator.get(TASKS_PATH)
    queries.clear()
    operator.get(TASKS_PATH)
    query_count = len(queries)
    for _ in range(29):
        instances.deploy(cast.instance(), image_id=cast.image.id, actor="test")
    session.commit()
    queries.clear()
    assert operator.get(TASKS_PATH).text.count('<tr id="') == 25
    assert len(queries) == query_count
