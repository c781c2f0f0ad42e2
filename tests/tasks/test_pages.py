"""Tasks on the pages."""

from panel.core.db import session
from panel.models import Task
from panel.services import instances
from tests.support.html_pages import PARTIAL_HEADERS


def create_instance_with_deploy(cast, **values):
    instance = cast.instance(**values)
    task, _ = instances.deploy(instance, image_id=cast.image.id, account=cast.owner, actor="owner@example.com")
    session.commit()
    return instance, task


def test_task_page_shows_queued_and_completed_task(browser_as, cast, run_tasks):
    instance, task = create_instance_with_deploy(cast, display_name="Shop front")
    browser = browser_as("owner")
    page = browser.get(f"/tasks/{task.id}").text
    assert "Queued" in page
    assert "every 1s" in page
    assert f"/instances/{instance.id}" in page
    assert "every 2s" in browser.get("/tasks/tray", headers=PARTIAL_HEADERS).text
    run_tasks()
    page = browser.get(f"/tasks/{task.id}").text
    assert "Creating the disk" in page
    assert "every 1s" not in page
    task_menu = browser.get("/tasks/tray", headers=PARTIAL_HEADERS).text
    assert "every 2s" not in task_menu
    assert "Deploy" in task_menu


def test_task_list_filters(browser_as, cast, run_tasks):
    _, task = create_instance_with_deploy(cast, display_name="Shop front")
    browser = browser_as("owner")
    assert task.id in browser.get("/tasks").text
    assert task.id in browser.get("/tasks?status=open").text
    assert task.id not in browser.get("/tasks?status=failed", headers=PARTIAL_HEADERS).text
    assert task.id not in browser.get("/tasks?search=nothing", headers=PARTIAL_HEADERS).text
    assert task.id in browser.get("/tasks?status=nonsense").text


def test_task_page_cancels_task(browser_as, cast):
    _, task = create_instance_with_deploy(cast)
    assert browser_as("owner").post(f"/tasks/{task.id}/cancel").headers["Location"] == f"/tasks/{task.id}"
    assert task.cancel_requested_at
    second_answer = browser_as("owner").post(f"/tasks/{task.id}/cancel")
    assert second_answer.status_code == 409
    assert "can no longer be cancelled" in second_answer.text


def test_tasks_of_other_accounts_are_not_found(browser_as, cast):
    _, task = create_instance_with_deploy(cast)
    outsider = browser_as("outsider")
    assert outsider.get(f"/tasks/{task.id}").status_code == 404
    assert outsider.post(f"/tasks/{task.id}/cancel").status_code == 404
    assert task.id not in outsider.get("/tasks").text
    assert task.id not in outsider.get("/tasks/tray").text
    assert session.get(Task, task.id).cancel_requested_at is None


def test_task_list_query_count_is_constant(browser_as, cast, queries):
    browser = browser_as("owner")
    create_instance_with_deploy(cast)
    queries.clear()
    browser.get("/tasks")
    query_count = len(queries)
    for _ in range(29):
        create_instance_with_deploy(cast)
    queries.clear()
    assert browser.get("/tasks").text.count('<tr id="task-') == 25
    assert len(queries) == query_count
