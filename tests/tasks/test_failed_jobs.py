"""What failed in the background, by the operators' API and on their page."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Task
from panel.services import instances
from worker.engine.registry import TASK_TYPES, TaskType
from worker.nodes.base import Refused

PATH = "/api/v1/system/failed-jobs"
SECRET = "k33p-this-secret"


@pytest.fixture
def fail_deploy(cast, run_tasks, monkeypatch):
    """A deploy that fails with this exception."""

    def fail(error):
        def body(work):
            raise error

        monkeypatch.setitem(TASK_TYPES, "instance_deploy", TaskType(body, None, ()))
        made = cast.instance()
        task, _ = instances.deploy(made, image_id=cast.image.id, password=SECRET, actor="owner@example.com")
        task.arguments = {**task.arguments, "cloudcfg": SECRET}
        session.commit()
        run_tasks()
        return session.get(Task, task.id)

    return fail


def test_failed_jobs_are_grouped(api_as, fail_deploy):
    """OTH-02"""
    empty = api_as("admin", "GET", PATH).json
    assert (empty["success"], empty["data"]) == (True, {"total": 0, "groups": []})
    first, second = fail_deploy(Refused("no")), fail_deploy(Refused("no again"))
    third = fail_deploy(KeyError("x"))
    answer = api_as("admin", "GET", PATH).json
    assert answer["data"]["total"] == 3
    groups = {group["exception_class"]: group for group in answer["data"]["groups"]}
    fields = {"queue", "job", "exception_class", "count", "first_failed_at", "last_failed_at"}
    assert all(group.keys() == fields for group in groups.values())
    refused = groups["Refused"]
    assert (refused["queue"], refused["job"], refused["count"]) == ("tasks", "instance_deploy", 2)
    moment = lambda task: task.finished_at.isoformat().replace("+00:00", "Z")  # noqa: E731
    assert (refused["first_failed_at"], refused["last_failed_at"]) == (moment(first), moment(second))
    assert [group["exception_class"] for group in answer["data"]["groups"]] == ["KeyError", "Refused"]
    assert groups["KeyError"]["last_failed_at"] == moment(third)


def test_what_was_cancelled_or_done_is_no_failure(api_as, fail_deploy):
    fail_deploy(Refused("no")).status = "cancelled"
    session.commit()
    assert api_as("admin", "GET", PATH).json["data"]["total"] == 0


def test_since_leaves_out_what_failed_before(api_as, fail_deploy):
    """OTH-03"""
    failed = fail_deploy(Refused("no")).finished_at
    for moment, total in ((failed - timedelta(seconds=1), 1), (failed, 1), (failed + timedelta(seconds=1), 0)):
        for text in (moment.isoformat(), moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), moment.replace(tzinfo=None)):
            answer = api_as("admin", "GET", PATH, query_string={"since": str(text)})
            assert answer.json["data"]["total"] == total, text


@pytest.mark.parametrize("since", ["yesterday-ish", "", "2026-13-01T00:00:00Z", "1767225600"])
def test_an_unparseable_since_is_refused(api_as, since):
    """OTH-04"""
    answer = api_as("admin", "GET", PATH, query_string={"since": since})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"since"})


def test_neither_payloads_nor_messages_are_returned(api_as, fail_deploy):
    """OTH-05"""
    fail_deploy(Refused(f"cannot use {SECRET}", f"virsh: {SECRET}"))
    fail_deploy(RuntimeError(SECRET))
    answer = api_as("admin", "GET", PATH)
    assert answer.json["data"]["total"] == 2
    assert SECRET not in answer.text
    assert "example.com" not in answer.text


def test_the_groups_are_counted_in_one_query(api_as, fail_deploy, queries):
    fail_deploy(Refused("no"))
    queries.clear()
    api_as("admin", "GET", PATH)
    few = len(queries)
    for _ in range(5):
        fail_deploy(Refused("no"))
    queries.clear()
    api_as("admin", "GET", PATH)
    assert len(queries) == few


def test_the_page_shows_them_and_leads_to_the_tasks(browser_as, fail_deploy, monkeypatch):
    operator = browser_as("admin")
    assert "No failed tasks" in operator.get("/admin/tasks/failed").text
    task = fail_deploy(Refused("no room for it"))
    page = operator.get("/admin/tasks/failed").text
    assert "Refused" in page
    assert "/admin/tasks?status=failed&amp;kind=instance_deploy" in page
    listed = operator.get("/admin/tasks?status=failed&kind=instance_deploy").text
    assert f"task-{task.id}" in listed
    assert f"task-{task.id}" not in operator.get("/admin/tasks?kind=instance_start").text
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(hours=2))
    assert "No failed tasks" in operator.get("/admin/tasks/failed?since=hour").text
    assert "Refused" in operator.get("/admin/tasks/failed?since=ever").text


def test_tasks_are_filtered_by_kind_and_hypervisor(api_as, cast, fail_deploy):
    task = fail_deploy(Refused("no"))

    def found(**query):
        return [row["id"] for row in api_as("admin", "GET", "/api/v1/tasks", query_string=query).json["data"]]

    assert found(kind="instance_deploy") == found(hypervisor_id=cast.node.id) == [task.id]
    assert found(kind="instance_start") == found(hypervisor_id="other") == []
