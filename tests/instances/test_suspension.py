"""Suspending: the machine is off and stays off, and comes back as it was. ENV-24 for both admin actions."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Event, Task
from panel.services import instances


@pytest.fixture
def deployed(cast, run_tasks):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    return instance


@pytest.fixture
def admin(api_as):
    def call(instance, action):
        return api_as("admin", "POST", f"/api/v1/instance/{instance.id}/state/{action}")

    return call


def events(instance):
    found = select(Event.kind, Event.data).where(Event.resource_id == instance.id).order_by(Event.id)
    return [(kind, data.get("reason")) for kind, data in session.execute(found) if "suspended" in kind]


def test_suspend_and_resume(admin, deployed, run_tasks, node):
    """ENV-24: the answer's data names the task."""
    answer = admin(deployed, "suspend")
    assert answer.status_code == 200
    assert session.get(Task, answer.json["data"]["task_id"]).kind == "instance_suspend"
    assert (deployed.state, deployed.status, deployed.suspended_reason) == ("suspended", 2, "admin")
    run_tasks()
    assert (node.power(deployed.id), deployed.power, deployed.state) == ("off", "off", "suspended")
    answer = admin(deployed, "resume")
    assert session.get(Task, answer.json["data"]["task_id"]).kind == "instance_unsuspend"
    run_tasks()
    assert (node.power(deployed.id), deployed.state) == ("on", "running")
    assert events(deployed) == [("instance.suspended", "admin"), ("instance.unsuspended", "admin")]


def test_what_was_off_stays_off(admin, api_as, deployed, run_tasks, node):
    api_as("owner", "POST", f"/api/instance/{deployed.id}/power/poweroff")
    run_tasks()
    admin(deployed, "suspend")
    run_tasks()
    admin(deployed, "resume")
    run_tasks()
    assert (node.power(deployed.id), deployed.state) == ("off", "stopped")


def test_suspension_is_idempotent(admin, deployed, run_tasks):
    assert admin(deployed, "resume").json["data"] == {"task_id": None}
    admin(deployed, "suspend")
    again = admin(deployed, "suspend")
    assert (again.status_code, again.json["data"]) == (200, {"task_id": None})
    assert len(events(deployed)) == 1


def test_the_platform_takes_over_a_suspension_by_the_owner(deployed):
    instances.suspend(deployed, reason="user", actor="test")
    assert instances.suspend(deployed, reason="admin", actor="test") is None
    assert deployed.suspended_reason == "admin"
    assert instances.suspend(deployed, reason="user", actor="test") is None
    assert deployed.suspended_reason == "admin"


def test_a_migrating_machine_is_left_alone(admin, deployed):
    deployed.migrating = True
    session.commit()
    for action in ("suspend", "resume"):
        answer = admin(deployed, action)
        assert (answer.status_code, answer.json["reason"]) == (409, "task_running")


def test_the_owner_can_do_nothing_with_it(admin, api_as, deployed, run_tasks):
    admin(deployed, "suspend")
    run_tasks()
    for action in ("start", "stop", "shutdown", "restart", "poweroff"):
        answer = api_as("owner", "POST", f"/api/instance/{deployed.id}/power/{action}")
        assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    assert api_as("owner", "DELETE", f"/api/cloud-service/instances/{deployed.id}").json["reason"] == "suspended"
    assert api_as("admin", "DELETE", f"/api/v1/instance/{deployed.id}").status_code == 200


def test_a_start_that_waited_meanwhile_does_not_run(admin, api_as, deployed, run_tasks, node):
    """Asked for before the suspension: it will be on afterwards, and not before."""
    api_as("owner", "POST", f"/api/instance/{deployed.id}/power/poweroff")
    run_tasks()
    start = api_as("owner", "POST", f"/api/instance/{deployed.id}/power/start").json["task_id"]
    admin(deployed, "suspend")
    run_tasks()
    assert session.get(Task, start).status == "failed"
    assert "suspended" in session.get(Task, start).error
    assert node.power(deployed.id) == "off"
    admin(deployed, "resume")
    run_tasks()
    assert node.power(deployed.id) == "on"


def test_a_machine_that_is_being_made_ends_off(admin, cast, run_tasks, node):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    admin(instance, "suspend")
    assert instance.state == "suspended"
    run_tasks()
    assert instance.deployed
    assert (node.power(instance.id), instance.state) == ("off", "suspended")
    admin(instance, "resume")
    run_tasks()
    assert instance.state == "running"


def test_one_without_a_system_is_only_closed(admin, api_as, cast, run_tasks):
    instance = cast.instance()
    task = admin(instance, "suspend").json["data"]["task_id"]
    refused = api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    assert (refused.status_code, refused.json["reason"]) == (409, "suspended")
    run_tasks()
    assert session.get(Task, task).status == "completed"
    admin(instance, "resume")
    run_tasks()
    assert instance.state == "pending"


def test_suspension_last_request_wins(admin, deployed, run_tasks, node):
    """Suspended and resumed before a worker came: the machine was never off."""
    for action in ("suspend", "resume", "suspend", "resume"):
        admin(deployed, action)
    run_tasks()
    assert (node.power(deployed.id), deployed.state) == ("on", "running")
    for action in ("suspend", "resume", "suspend"):
        admin(deployed, action)
    run_tasks()
    assert (node.power(deployed.id), deployed.state) == ("off", "suspended")
    assert deployed.resume_power == "on"


def test_an_operator_suspends_on_the_page(browser_as, deployed, run_tasks, node):
    page = f"/admin/instances/{deployed.id}"
    browser = browser_as("admin")
    assert browser.post(f"{page}/suspend").status_code == 303
    run_tasks()
    assert node.power(deployed.id) == "off"
    shown = browser.get(page).text
    assert f"{page}/resume" in shown
    assert f"{page}/suspend" not in shown
    assert "Suspended by an operator" in shown
    browser.post(f"{page}/resume")
    run_tasks()
    assert deployed.state == "running"
