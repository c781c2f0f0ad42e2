"""Suspending: the machine is off and stays off, and comes back as it was. ENV-24 for both admin actions."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Event, Task
from panel.services import instances


@pytest.fixture
def deployed(cast, work):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    work()
    return instance


@pytest.fixture
def admin(as_):
    def call(instance, action):
        return as_("admin", "POST", f"/api/v1/instance/{instance.id}/state/{action}")

    return call


def events(instance):
    found = select(Event.kind, Event.data).where(Event.resource_id == instance.id).order_by(Event.id)
    return [(kind, data.get("reason")) for kind, data in session.execute(found) if "suspended" in kind]


def test_suspend_and_resume(admin, deployed, work, node):
    """ENV-24: the answer's data names the task."""
    answer = admin(deployed, "suspend")
    assert answer.status_code == 200
    assert session.get(Task, answer.json["data"]["task_id"]).kind == "instance_suspend"
    assert (deployed.state, deployed.status, deployed.suspended_reason) == ("suspended", 2, "admin")
    work()
    assert (node.power(deployed.id), deployed.power, deployed.state) == ("off", "off", "suspended")
    answer = admin(deployed, "resume")
    assert session.get(Task, answer.json["data"]["task_id"]).kind == "instance_unsuspend"
    work()
    assert (node.power(deployed.id), deployed.state) == ("on", "running")
    assert events(deployed) == [("instance.suspended", "admin"), ("instance.unsuspended", "admin")]


def test_what_was_off_stays_off(admin, as_, deployed, work, node):
    as_("owner", "POST", f"/api/instance/{deployed.id}/power/poweroff")
    work()
    admin(deployed, "suspend")
    work()
    admin(deployed, "resume")
    work()
    assert (node.power(deployed.id), deployed.state) == ("off", "stopped")


def test_it_is_so_already(admin, deployed, work):
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


def test_the_owner_can_do_nothing_with_it(admin, as_, deployed, work):
    admin(deployed, "suspend")
    work()
    for action in ("start", "stop", "shutdown", "restart", "poweroff"):
        answer = as_("owner", "POST", f"/api/instance/{deployed.id}/power/{action}")
        assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    assert as_("owner", "DELETE", f"/api/cloud-service/instances/{deployed.id}").json["reason"] == "suspended"
    assert as_("admin", "DELETE", f"/api/v1/instance/{deployed.id}").status_code == 200


def test_a_start_that_waited_meanwhile_does_not_run(admin, as_, deployed, work, node):
    """Asked for before the suspension: it will be on afterwards, and not before."""
    as_("owner", "POST", f"/api/instance/{deployed.id}/power/poweroff")
    work()
    start = as_("owner", "POST", f"/api/instance/{deployed.id}/power/start").json["task_id"]
    admin(deployed, "suspend")
    work()
    assert session.get(Task, start).status == "failed"
    assert "suspended" in session.get(Task, start).error
    assert node.power(deployed.id) == "off"
    admin(deployed, "resume")
    work()
    assert node.power(deployed.id) == "on"


def test_a_machine_that_is_being_made_ends_off(admin, cast, work, node):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    admin(instance, "suspend")
    assert instance.state == "suspended"
    work()
    assert instance.deployed
    assert (node.power(instance.id), instance.state) == ("off", "suspended")
    admin(instance, "resume")
    work()
    assert instance.state == "running"


def test_one_without_a_system_is_only_closed(admin, as_, cast, work):
    instance = cast.instance()
    task = admin(instance, "suspend").json["data"]["task_id"]
    refused = as_("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    assert (refused.status_code, refused.json["reason"]) == (409, "suspended")
    work()
    assert session.get(Task, task).status == "completed"
    admin(instance, "resume")
    work()
    assert instance.state == "pending"


def test_the_last_word_counts(admin, deployed, work, node):
    """Suspended and resumed before a worker came: the machine was never off."""
    for action in ("suspend", "resume", "suspend", "resume"):
        admin(deployed, action)
    work()
    assert (node.power(deployed.id), deployed.state) == ("on", "running")
    for action in ("suspend", "resume", "suspend"):
        admin(deployed, action)
    work()
    assert (node.power(deployed.id), deployed.state) == ("off", "suspended")
    assert deployed.resume_power == "on"


def test_an_operator_suspends_on_the_page(browse, deployed, work, node):
    page = f"/admin/instances/{deployed.id}"
    browser = browse("admin")
    assert browser.post(f"{page}/suspend").status_code == 303
    work()
    assert node.power(deployed.id) == "off"
    shown = browser.get(page).text
    assert f"{page}/resume" in shown
    assert f"{page}/suspend" not in shown
    assert "Suspended by an operator" in shown
    browser.post(f"{page}/resume")
    work()
    assert deployed.state == "running"
