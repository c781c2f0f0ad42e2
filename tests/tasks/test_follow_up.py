"""Pages of failed tasks: what can be done next."""

import re

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import generate_id, session
from panel.core.task_kinds import TASK_LABELS
from panel.models import Iso, MediaDownload, Snapshot, Task
from panel.pages.shared.task_retries import INSTANCE_RETRIES, RESOURCE_RETRIES
from panel.services import snapshots
from tests.support.instances import create_deployed_instance
from tests.support.worker_faults import fault_at  # noqa: F401  (fixture)
from worker.nodes.base import Refused


def add_failed_task(cast, kind, resource_type, resource_id, arguments=None):
    task = Task(id=generate_id(), kind=kind, resource_type=resource_type, resource_id=resource_id, resource_name="x")
    task.account_id, task.lock, task.actor, task.arguments = cast.owner.id, "light", "t", arguments or {}
    task.status, task.error, task.finished_at = "failed", "It was refused.", clock.now()
    session.add(task)
    session.commit()
    return f"/tasks/{task.id}"


def test_page_of_failed_power_task_offers_retry(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks)
    page = browser_as("owner").get(add_failed_task(cast, "instance_restart", "instance", instance.id)).text
    assert f'action="/instances/{instance.id}/power/restart?' in page
    assert "Try again" in page
    assert 'class="text-danger"' in page
    page = browser_as("viewer").get(add_failed_task(cast, "instance_start", "instance", instance.id)).text
    assert f'action="/instances/{instance.id}/power/start"' not in page


def refuse():
    raise Refused("No room.")


def read_retry(page):
    """Return the path and the fields of the form of the button."""
    form = next(form for form in re.findall(r"<form.*?</form>", page, re.DOTALL) if 'id="retry"' in form)
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="(.*?)"', form)
    return re.search(r'action="([^"?]+)', form)[1], dict(fields)


@pytest.mark.parametrize(("caller", "area"), [("owner", ""), ("admin", "/admin")])
def test_failed_snapshot_is_tried_again_with_its_name(browser_as, cast, run_tasks, fault_at, caller, area):
    instance = create_deployed_instance(cast, run_tasks)
    _, task = snapshots.create(instance, snapname="before", description="d", vmstate=False, actor="owner@example.com")
    session.commit()
    with fault_at("create_snapshot", then=refuse):
        run_tasks()
    assert session.get(Task, task.id).status == "failed"
    browser = browser_as(caller)
    path, fields = read_retry(browser.get(f"{area}/tasks/{task.id}").text)
    assert path == f"{area}/instances/{instance.id}/snapshots/take"
    assert fields["snapname"] == "before"
    assert browser.post(path, data=fields).status_code < 400
    run_tasks()
    row = session.scalar(select(Snapshot).where(Snapshot.instance_id == instance.id))
    assert (row.name, row.status) == ("before", "available")


@pytest.mark.parametrize(("caller", "area"), [("owner", ""), ("admin", "/admin")])
def test_failed_task_on_page_of_instance_offers_retry(browser_as, cast, run_tasks, caller, area):
    instance = create_deployed_instance(cast, run_tasks)
    add_failed_task(cast, "instance_restart", "instance", instance.id)
    browser = browser_as(caller)
    path, _ = read_retry(browser.get(f"{area}/instances/{instance.id}").text)
    assert path == f"{area}/instances/{instance.id}/power/restart"
    assert browser.post(path).status_code < 400
    assert session.scalar(select(Task).where(Task.kind == "instance_restart", Task.status == "queued"))


def test_every_kind_in_the_table_is_tried_again_or_has_a_form(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks)
    snapshot, _ = snapshots.create(instance, snapname="s", description="", vmstate=False, actor="t")
    session.commit()
    arguments = {"snapshot_id": snapshot.id, "disk_id": instance.disks[0].id, "slot": "primary", "iso_id": "x"}
    arguments |= {"backup_id": "b"}
    owner, admin = browser_as("owner"), browser_as("admin")
    kinds = INSTANCE_RETRIES.keys() | {kind for type_, kind in RESOURCE_RETRIES if type_ == "instance"}
    for kind in kinds - {"docker_deploy", "docker_control", "docker_probe"}:  # they need an app
        path = add_failed_task(cast, kind, "instance", instance.id, arguments)
        is_offered = [
            'id="retry"' in browser.get(area + path).text for browser, area in ((owner, ""), (admin, "/admin"))
        ]
        assert is_offered[0] or kind.startswith(("migration_", "instance_repair")), kind
        assert is_offered[1], kind
    tables = INSTANCE_RETRIES.keys() | {kind for _type, kind in RESOURCE_RETRIES}
    assert tables <= TASK_LABELS.keys()


def test_page_of_unrepeatable_task_says_what_to_do(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks)
    page = browser_as("owner").get(add_failed_task(cast, "snapshot_create", "instance", instance.id)).text
    assert "Try again" not in page  # the snapshot is gone
    assert "To try again, repeat the action on the page of the resource." in page
    assert f'href="/instances/{instance.id}"' in page


def test_page_of_failed_download_shows_next_attempt(browser_as, cast):
    iso = Iso(account_id=cast.owner.id, name="a", filename="a.iso", url="https://example.com/a.iso")
    session.add(iso)
    session.flush()
    session.add(MediaDownload(iso_id=iso.id, next_attempt_at=clock.now()))
    session.commit()
    page = browser_as("owner").get(add_failed_task(cast, "media_download", "iso", iso.id)).text
    assert "It is retried automatically. Next attempt" in page
    assert 'href="/isos"' in page
    assert f'action="/isos/{iso.id}/retry"' in page
