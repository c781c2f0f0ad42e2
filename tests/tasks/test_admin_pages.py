"""Tasks on the operators' pages."""

import pytest

from panel.core.db import session
from panel.services import instances
from tests.test_pages import PARTIAL_HEADERS

TASKS = "/admin/tasks"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


@pytest.fixture
def task(cast):
    made, _ = instances.deploy(cast.instance(), image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    return made


def fail_task(task):
    task.status, task.error, task.error_detail = "failed", "There is not enough room.", "virsh: No space left on device"
    session.commit()


def test_a_failed_task_shows_what_the_node_said_to_operators_only(operator, browser_as, task):
    fail_task(task)
    page = operator.get(f"{TASKS}/{task.id}").text
    assert "There is not enough room." in page
    assert "No space left on device" in page
    assert "node-1" in page
    assert "owner@example.com" in page
    assert "No space left on device" not in browser_as("owner").get(f"/tasks/{task.id}").text
    assert "No space left on device" in operator.get(f"/admin/instances/{task.resource_id}").text


def test_the_list_and_its_filters(operator, cast, task):
    other, _ = instances.deploy(cast.instance("outsider"), image_id=cast.image.id, actor="outsider@example.com")
    fail_task(other)
    shown = lambda query: operator.get(f"{TASKS}?{query}", headers=PARTIAL_HEADERS).text  # noqa: E731
    assert task.id in shown("")
    assert other.id in shown("")
    assert (task.id in shown("status=failed"), other.id in shown("status=failed")) == (False, True)
    assert (task.id in shown("status=open"), other.id in shown("status=open")) == (True, False)
    assert task.id in shown(f"search={task.resource_name}")
    assert "No failed tasks" in shown("status=failed&search=zzz")
    assert operator.get(TASKS).text.index(">Failed<") < operator.get(TASKS).text.index(">Completed<")


def test_a_task_outlives_its_instance(operator, cast, task, run_tasks):
    instances.destroy(instances.get(task.resource_id), actor="test")
    session.commit()
    run_tasks()
    page = operator.get(f"{TASKS}/{task.id}")
    assert page.status_code == 200
    assert f"/admin/instances/{task.resource_id}" not in page.text


def test_admin_page_cancels_task(operator, task):
    answer = operator.post(f"{TASKS}/{task.id}/cancel", headers=PARTIAL_HEADERS)
    assert answer.headers["HX-Trigger"] == "changed"
    assert task.cancel_requested_at
    assert operator.post(f"{TASKS}/{task.id}/cancel").status_code == 409


def test_the_list_costs_the_same_for_many(operator, cast, task, queries):
    operator.get(TASKS)
    queries.clear()
    operator.get(TASKS)
    few = len(queries)
    for _ in range(29):
        instances.deploy(cast.instance(), image_id=cast.image.id, actor="test")
    session.commit()
    queries.clear()
    assert operator.get(TASKS).text.count('<tr id="') == 25
    assert len(queries) == few
