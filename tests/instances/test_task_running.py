"""The field `task_running`: an instance has a queued or running task. C8, E5."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Iso
from panel.services import isos

TASK_REQUESTS = {
    "restart": ("owner", "POST", "/api/instance/{}/power/restart", {}),
    "power off": ("owner", "POST", "/api/instance/{}/power/poweroff", {}),
    "suspend": ("admin", "POST", "/api/v1/instance/{}/state/suspend", {}),
    "snapshot": ("owner", "POST", "/api/instance/{}/snapshot", {"snapname": "one"}),
    "disk": ("admin", "POST", "/api/v1/instance/{}/disks", {"size": 2}),
    "iso": ("owner", "POST", "/api/instance/{}/iso/primary/mount", {"iso_id": "…"}),
    "password": ("owner", "POST", "/api/instance/{}/reset-password", {}),
    "reinstall": ("owner", "POST", "/api/instance/{}/reinstall", {}),
}


@pytest.fixture
def instance(api_as, cast, run_tasks):
    created_instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{created_instance.id}/deploy", json={"image_id": cast.image.id})
    assert list_task_running_flags(api_as, created_instance) == [True] * 5
    run_tasks()
    return session.get(Instance, created_instance.id)


def list_task_running_flags(as_, instance):
    """Return the field of each answer that has it."""
    items = [
        as_("owner", "GET", f"/api/instance/{instance.id}").json,
        as_("owner", "GET", f"/api/instance/{instance.id}/fetch").json,
        *as_("owner", "GET", "/api/instances").json["data"],
        as_("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"],
        *as_("admin", "GET", "/api/v1/instances").json["data"],
    ]
    return [item["task_running"] for item in items if item["id"] == instance.id]


@pytest.mark.parametrize("request_name", TASK_REQUESTS)
def test_task_running_is_true_until_task_ends(api_as, instance, run_tasks, file_server, request_name):
    """C8, E5: a client that waits until it is false can continue."""
    caller, method, path, body = TASK_REQUESTS[request_name]
    if "iso_id" in body:
        body = {"iso_id": isos.create(url=file_server.put(), actor="test").id}
        session.commit()
        run_tasks()
        assert session.get(Iso, body["iso_id"]) is not None
    assert list_task_running_flags(api_as, instance) == [False] * 5
    answer = api_as(caller, method, path.format(instance.id), json=body)
    assert answer.status_code == 200, answer.json
    assert list_task_running_flags(api_as, instance) == [True] * 5
    run_tasks()
    assert list_task_running_flags(api_as, instance) == [False] * 5


def test_power_of_suspended_instance_is_reported_by_node(api_as, instance, run_tasks):
    """E5: the state is suspended at once; the power is on until the node reports off."""
    api_as("admin", "POST", f"/api/v1/instance/{instance.id}/state/suspend")
    item = api_as("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"]
    assert (item["state"], item["power"], item["task_running"]) == ("suspended", "on", True)
    run_tasks()
    item = api_as("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"]
    assert (item["state"], item["power"], item["task_running"]) == ("suspended", "off", False)


def test_task_running_uses_partial_index(rolled_back_app):
    """Only open tasks are read, however many tasks an instance had."""
    if session.get_bind().dialect.name != "sqlite":
        pytest.skip("the text of the query plan is specific to SQLite")
    statement = select(Instance.task_running).compile(session.get_bind(), compile_kwargs={"render_postcompile": True})
    plan = session.connection().exec_driver_sql(f"explain query plan {statement}").all()
    assert any("ix_tasks_open_resource_id" in str(row) or "ix_tasks_open" in str(row) for row in plan)
