"""Suspending powers the machine off; resuming restores its power state. ENV-24 for both admin actions."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Event, Task
from panel.services import instances


@pytest.fixture
def deployed_instance(cast, run_tasks):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    return instance


@pytest.fixture
def post_state_action(api_as):
    def call(instance, action):
        return api_as("admin", "POST", f"/api/v1/instance/{instance.id}/state/{action}")

    return call


def list_suspension_events(instance):
    query = select(Event.kind, Event.data).where(Event.resource_id == instance.id).order_by(Event.id)
    return [(kind, data.get("reason")) for kind, data in session.execute(query) if "suspended" in kind]


def test_suspend_and_resume(post_state_action, deployed_instance, run_tasks, node):
    """ENV-24: the answer's data names the task."""
    answer = post_state_action(deployed_instance, "suspend")
    assert answer.status_code == 200
    assert session.get(Task, answer.json["data"]["task_id"]).kind == "instance_suspend"
    assert (deployed_instance.state, deployed_instance.status, deployed_instance.suspended_reason) == (
        "suspended",
        2,
        "admin",
    )
    run_tasks()
    assert (node.power(deployed_instance.id), deployed_instance.power, deployed_instance.state) == (
        "off",
        "off",
        "suspended",
    )
    answer = post_state_action(deployed_instance, "resume")
    assert session.get(Task, answer.json["data"]["task_id"]).kind == "instance_unsuspend"
    run_tasks()
    assert (node.power(deployed_instance.id), deployed_instance.state) == ("on", "running")
    assert list_suspension_events(deployed_instance) == [
        ("instance.suspended", "admin"),
        ("instance.unsuspended", "admin"),
    ]


def test_resume_keeps_stopped_instance_off(post_state_action, api_as, deployed_instance, run_tasks, node):
    api_as("owner", "POST", f"/api/instance/{deployed_instance.id}/power/poweroff")
    run_tasks()
    post_state_action(deployed_instance, "suspend")
    run_tasks()
    post_state_action(deployed_instance, "resume")
    run_tasks()
    assert (node.power(deployed_instance.id), deployed_instance.state) == ("off", "stopped")


def test_suspension_is_idempotent(post_state_action, deployed_instance, run_tasks):
    assert post_state_action(deployed_instance, "resume").json["data"] == {"task_id": None}
    post_state_action(deployed_instance, "suspend")
    again = post_state_action(deployed_instance, "suspend")
    assert (again.status_code, again.json["data"]) == (200, {"task_id": None})
    assert len(list_suspension_events(deployed_instance)) == 1


def test_admin_suspension_overrides_owner_suspension(deployed_instance):
    instances.suspend(deployed_instance, reason="user", actor="test")
    assert instances.suspend(deployed_instance, reason="admin", actor="test") is None
    assert deployed_instance.suspended_reason == "admin"
    assert instances.suspend(deployed_instance, reason="user", actor="test") is None
    assert deployed_instance.suspended_reason == "admin"


def test_migrating_instance_is_not_suspended(post_state_action, deployed_instance):
    deployed_instance.migrating = True
    session.commit()
    for action in ("suspend", "resume"):
        answer = post_state_action(deployed_instance, action)
        assert (answer.status_code, answer.json["reason"]) == (409, "task_running")


def test_owner_actions_on_suspended_instance_are_refused(post_state_action, api_as, deployed_instance, run_tasks):
    post_state_action(deployed_instance, "suspend")
    run_tasks()
    for action in ("start", "stop", "shutdown", "restart", "poweroff"):
        answer = api_as("owner", "POST", f"/api/instance/{deployed_instance.id}/power/{action}")
        assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    assert (
        api_as("owner", "DELETE", f"/api/cloud-service/instances/{deployed_instance.id}").json["reason"] == "suspended"
    )
    assert api_as("admin", "DELETE", f"/api/v1/instance/{deployed_instance.id}").status_code == 200


def test_queued_start_fails_during_suspension(post_state_action, api_as, deployed_instance, run_tasks, node):
    """The start was requested before the suspension: the machine is on after the resume, and not before."""
    api_as("owner", "POST", f"/api/instance/{deployed_instance.id}/power/poweroff")
    run_tasks()
    start = api_as("owner", "POST", f"/api/instance/{deployed_instance.id}/power/start").json["task_id"]
    post_state_action(deployed_instance, "suspend")
    run_tasks()
    assert session.get(Task, start).status == "failed"
    assert "suspended" in session.get(Task, start).error
    assert node.power(deployed_instance.id) == "off"
    post_state_action(deployed_instance, "resume")
    run_tasks()
    assert node.power(deployed_instance.id) == "on"


def test_deploy_during_suspension_ends_powered_off(post_state_action, cast, run_tasks, node):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    post_state_action(instance, "suspend")
    assert instance.state == "suspended"
    run_tasks()
    assert instance.deployed
    assert (node.power(instance.id), instance.state) == ("off", "suspended")
    post_state_action(instance, "resume")
    run_tasks()
    assert instance.state == "running"


def test_suspended_undeployed_instance_refuses_deploy(post_state_action, api_as, cast, run_tasks):
    instance = cast.instance()
    task = post_state_action(instance, "suspend").json["data"]["task_id"]
    refused = api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    assert (refused.status_code, refused.json["reason"]) == (409, "suspended")
    run_tasks()
    assert session.get(Task, task).status == "completed"
    post_state_action(instance, "resume")
    run_tasks()
    assert instance.state == "pending"


def test_suspension_last_request_wins(post_state_action, deployed_instance, run_tasks, node):
    """Suspended and resumed before a worker claims the tasks: the machine is never powered off."""
    for action in ("suspend", "resume", "suspend", "resume"):
        post_state_action(deployed_instance, action)
    run_tasks()
    assert (node.power(deployed_instance.id), deployed_instance.state) == ("on", "running")
    for action in ("suspend", "resume", "suspend"):
        post_state_action(deployed_instance, action)
    run_tasks()
    assert (node.power(deployed_instance.id), deployed_instance.state) == ("off", "suspended")
    assert deployed_instance.resume_power == "on"


def test_operator_suspends_and_resumes_on_page(browser_as, deployed_instance, run_tasks, node):
    page = f"/admin/instances/{deployed_instance.id}"
    browser = browser_as("admin")
    assert browser.post(f"{page}/suspend").status_code == 303
    run_tasks()
    assert node.power(deployed_instance.id) == "off"
    shown = browser.get(page).text
    assert f"{page}/resume" in shown
    assert f"{page}/suspend" not in shown
    assert "Suspended by an operator" in shown
    browser.post(f"{page}/resume")
    run_tasks()
    assert deployed_instance.state == "running"
