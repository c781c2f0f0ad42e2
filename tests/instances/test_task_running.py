"""Whether a task of an instance is queued or runs: `task_running`. C8, E5."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Iso
from panel.services import isos

REQUESTS = {
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
    made = cast.instance()
    api_as("owner", "POST", f"/api/instance/{made.id}/deploy", json={"image_id": cast.image.id})
    assert task_running_flags(api_as, made) == [True] * 5
    run_tasks()
    return session.get(Instance, made.id)


def task_running_flags(as_, instance):
    """What each answer says of it."""
    items = [
        as_("owner", "GET", f"/api/instance/{instance.id}").json,
        as_("owner", "GET", f"/api/instance/{instance.id}/fetch").json,
        *as_("owner", "GET", "/api/instances").json["data"],
        as_("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"],
        *as_("admin", "GET", "/api/v1/instances").json["data"],
    ]
    return [item["task_running"] for item in items if item["id"] == instance.id]


@pytest.mark.parametrize("asked", REQUESTS)
def test_it_is_shown_until_the_task_has_ended(api_as, instance, run_tasks, file_server, asked):
    """C8, E5: whatever is under way, who waits until it is false can go on."""
    who, method, path, body = REQUESTS[asked]
    if "iso_id" in body:
        body = {"iso_id": isos.create(url=file_server.put(), actor="test").id}
        session.commit()
        run_tasks()
        assert session.get(Iso, body["iso_id"]) is not None
    assert task_running_flags(api_as, instance) == [False] * 5
    answer = api_as(who, method, path.format(instance.id), json=body)
    assert answer.status_code == 200, answer.json
    assert task_running_flags(api_as, instance) == [True] * 5
    run_tasks()
    assert task_running_flags(api_as, instance) == [False] * 5


def test_the_power_of_a_suspended_machine_is_what_its_node_said(api_as, instance, run_tasks):
    """E5: it is suspended at once, and on until its node says that it is off."""
    api_as("admin", "POST", f"/api/v1/instance/{instance.id}/state/suspend")
    item = api_as("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"]
    assert (item["state"], item["power"], item["task_running"]) == ("suspended", "on", True)
    run_tasks()
    item = api_as("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"]
    assert (item["state"], item["power"], item["task_running"]) == ("suspended", "off", False)


def test_the_partial_index_answers(rolled_back_app):
    """However many tasks an instance ever had, only those that are open are looked at."""
    if session.get_bind().dialect.name != "sqlite":
        pytest.skip("SQLite tells its plan in these words")
    found = select(Instance.task_running).compile(session.get_bind(), compile_kwargs={"render_postcompile": True})
    plan = session.connection().exec_driver_sql(f"explain query plan {found}").all()
    assert any("ix_tasks_open_resource_id" in str(row) or "ix_tasks_open" in str(row) for row in plan)
