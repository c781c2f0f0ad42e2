"""Failed tasks by the admin API and on the page of operators."""

import importlib
import pkgutil
import re
from datetime import timedelta

import pytest

import worker.tasks
from panel.core import clock
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import Task
from panel.services import instances
from panel.web.failure_labels import FAILURE_LABELS
from worker.backups.errors import StoreError
from worker.engine.registry import TASK_TYPES, TaskType
from worker.nodes.base import NodeError, NoTicket, Refused

FAILED_JOBS_PATH = "/api/v1/system/failed-jobs"
SECRET = "k33p-this-secret"


@pytest.fixture
def fail_deploy(cast, run_tasks, monkeypatch):
    """Return a function that runs a deploy which fails with an exception, and returns its task."""

    def fail(error):
        def raise_error(task_context):
            raise error

        monkeypatch.setitem(TASK_TYPES, "instance_deploy", TaskType(raise_error, None, ()))
        instance = cast.instance()
        task, _ = instances.deploy(instance, image_id=cast.image.id, password=SECRET, actor="owner@example.com")
        task.arguments = {**task.arguments, "cloudcfg": SECRET}
        session.commit()
        run_tasks()
        return session.get(Task, task.id)

    return fail


def test_failed_jobs_are_grouped(api_as, fail_deploy):
    """OTH-02"""
    empty = api_as("admin", "GET", FAILED_JOBS_PATH).json
    assert (empty["success"], empty["data"]) == (True, {"total": 0, "groups": []})
    first, second = fail_deploy(Refused("no")), fail_deploy(Refused("no again"))
    third = fail_deploy(KeyError("x"))
    answer = api_as("admin", "GET", FAILED_JOBS_PATH).json
    assert answer["data"]["total"] == 3
    groups = {group["exception_class"]: group for group in answer["data"]["groups"]}
    fields = {"queue", "job", "exception_class", "count", "first_failed_at", "last_failed_at"}
    assert all(group.keys() == fields for group in groups.values())
    refused = groups["Refused"]
    assert (refused["queue"], refused["job"], refused["count"]) == ("tasks", "instance_deploy", 2)
    format_time = lambda task: task.finished_at.isoformat().replace("+00:00", "Z")  # noqa: E731
    assert (refused["first_failed_at"], refused["last_failed_at"]) == (format_time(first), format_time(second))
    assert [group["exception_class"] for group in answer["data"]["groups"]] == ["KeyError", "Refused"]
    assert groups["KeyError"]["last_failed_at"] == format_time(third)


def test_cancelled_tasks_are_not_failed_jobs(api_as, fail_deploy):
    fail_deploy(Refused("no")).status = "cancelled"
    session.commit()
    assert api_as("admin", "GET", FAILED_JOBS_PATH).json["data"]["total"] == 0


def test_since_excludes_earlier_failures(api_as, fail_deploy):
    """OTH-03"""
    failed = fail_deploy(Refused("no")).finished_at
    for moment, total in ((failed - timedelta(seconds=1), 1), (failed, 1), (failed + timedelta(seconds=1), 0)):
        for text in (moment.isoformat(), moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), moment.replace(tzinfo=None)):
            answer = api_as("admin", "GET", FAILED_JOBS_PATH, query_string={"since": str(text)})
            assert answer.json["data"]["total"] == total, text


@pytest.mark.parametrize("since", ["yesterday-ish", "", "2026-13-01T00:00:00Z", "1767225600"])
def test_unparseable_since_is_refused(api_as, since):
    """OTH-04"""
    answer = api_as("admin", "GET", FAILED_JOBS_PATH, query_string={"since": since})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"since"})


def test_failed_jobs_contain_no_payloads_or_messages(api_as, fail_deploy):
    """OTH-05"""
    fail_deploy(Refused(f"cannot use {SECRET}", f"virsh: {SECRET}"))
    fail_deploy(RuntimeError(SECRET))
    answer = api_as("admin", "GET", FAILED_JOBS_PATH)
    assert answer.json["data"]["total"] == 2
    assert SECRET not in answer.text
    assert "example.com" not in answer.text


def test_failed_jobs_query_count_is_constant(api_as, fail_deploy, queries):
    fail_deploy(Refused("no"))
    queries.clear()
    api_as("admin", "GET", FAILED_JOBS_PATH)
    query_count = len(queries)
    for _ in range(5):
        fail_deploy(Refused("no"))
    queries.clear()
    api_as("admin", "GET", FAILED_JOBS_PATH)
    assert len(queries) == query_count


def test_failed_jobs_page_links_tasks(browser_as, fail_deploy, monkeypatch):
    operator = browser_as("admin")
    assert "No failed tasks" in operator.get("/admin/tasks/failed").text
    task = fail_deploy(Refused("no room for it"))
    page = operator.get("/admin/tasks/failed").text
    assert "The hypervisor rejected the request" in page
    assert "/admin/tasks?status=failed&amp;kind=instance_deploy" in page
    task_list = operator.get("/admin/tasks?status=failed&kind=instance_deploy").text
    assert f"task-{task.id}" in task_list
    assert f"task-{task.id}" not in operator.get("/admin/tasks?kind=instance_start").text
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(hours=2))
    assert "No failed tasks" in operator.get("/admin/tasks/failed?since=hour").text
    assert "The hypervisor rejected the request" in operator.get("/admin/tasks/failed?since=ever").text


def test_failed_jobs_page_groups_by_words_for_the_cause(browser_as, fail_deploy):
    for error in (Refused("no"), NoTicket("no"), KeyError("x"), ZeroDivisionError("x")):
        task = fail_deploy(error)
    task.finished_at = None  # as the column permits
    session.commit()
    page = browser_as("admin").get("/admin/tasks/failed?since=ever").text
    page = page[page.index('id="rows"') :]
    details = re.findall(r"<details.*?</details>", page, re.DOTALL)
    assert [re.findall(r"<code>(\w+)</code>", text) for text in details] == [["instance_deploy"]] * 2
    classes = [set(re.search(r"error class <code>(.*?)</code>", text)[1].split(", ")) for text in details]
    assert sorted(classes, key=min) == [{"KeyError", "ZeroDivisionError"}, {"NoTicket", "Refused"}]
    visible = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert "Internal error of the panel" in visible
    assert not [word for word in ("NoTicket", "KeyError", ">instance_deploy") if word in visible]


def test_every_error_of_tasks_has_a_label():
    """Walks all error classes with a text for people; others are internal errors."""
    for module in pkgutil.iter_modules(worker.tasks.__path__, "worker.tasks."):
        importlib.import_module(module.name)
    classes = [NodeError, Problem, StoreError]
    for error_class in classes:
        classes += error_class.__subclasses__()
    own = {c.__name__ for c in classes if c.__module__.startswith(("worker.", "panel."))}
    assert own - FAILURE_LABELS.keys() == set()
    assert {"WorkerLost", "Unreachable", "FetchError"} <= FAILURE_LABELS.keys()


def test_tasks_are_filtered_by_kind_and_hypervisor(api_as, cast, fail_deploy):
    task = fail_deploy(Refused("no"))

    def list_task_ids(**query):
        return [row["id"] for row in api_as("admin", "GET", "/api/v1/tasks", query_string=query).json["data"]]

    assert list_task_ids(kind="instance_deploy") == list_task_ids(hypervisor_id=cast.node.id) == [task.id]
    assert list_task_ids(kind="instance_start") == list_task_ids(hypervisor_id="other") == []
