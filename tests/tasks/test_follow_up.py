"""Pages of failed tasks: what can be done next."""

from panel.core import clock
from panel.core.db import generate_id, session
from panel.models import Iso, MediaDownload, Task
from tests.support.instances import create_deployed_instance


def add_failed_task(cast, kind, resource_type, resource_id):
    task = Task(id=generate_id(), kind=kind, resource_type=resource_type, resource_id=resource_id, resource_name="x")
    task.account_id, task.lock, task.actor, task.arguments = cast.owner.id, "light", "t", {}
    task.status, task.error, task.finished_at = "failed", "It was refused.", clock.now()
    session.add(task)
    session.commit()
    return f"/tasks/{task.id}"


def test_page_of_failed_power_task_offers_retry(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks)
    page = browser_as("owner").get(add_failed_task(cast, "instance_restart", "instance", instance.id)).text
    assert f'action="/instances/{instance.id}/power/restart"' in page
    assert "Try again" in page
    assert 'class="text-danger"' in page
    page = browser_as("viewer").get(add_failed_task(cast, "instance_start", "instance", instance.id)).text
    assert f'action="/instances/{instance.id}/power/start"' not in page


def test_page_of_unrepeatable_task_offers_no_retry(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks)
    page = browser_as("owner").get(add_failed_task(cast, "snapshot_create", "instance", instance.id)).text
    assert "Try again" not in page
    assert "It is not retried automatically." in page
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
