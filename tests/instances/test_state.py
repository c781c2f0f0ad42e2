"""Endpoints that clients poll: state, installation progress, activity."""

from panel.core.db import session
from panel.models import Instance


def test_fetch_returns_state_and_open_task(api_as, cast, run_tasks, queries):
    instance = cast.instance()
    path = f"/api/instance/{instance.id}"
    expected = {
        "id": instance.id,
        "name": instance.name,
        "deployed": False,
        "status": 0,
        "state": "pending",
        "last_error": None,
    }
    assert api_as("owner", "GET", f"{path}/fetch").json == {**expected, "task_running": False, "task": None}
    task_id = api_as("owner", "POST", f"{path}/deploy", json={"image_id": cast.image.id}).json["task_id"]
    queries.clear()
    during = api_as("owner", "GET", f"{path}/fetch").json
    assert len(queries) < 12
    assert (during["task_running"], during["task"]["id"], during["task"]["status"]) == (True, task_id, "queued")
    run_tasks()
    after = api_as("owner", "GET", f"{path}/fetch").json
    assert (after["state"], after["status"], after["deployed"], after["task"]) == ("running", 1, True, None)


def test_install_returns_task_and_logs(api_as, cast, run_tasks):
    path = f"/api/instance/{cast.instance().id}"
    assert api_as("owner", "GET", f"{path}/install").json == {"task": None, "logs": []}
    first = api_as("owner", "POST", f"{path}/deploy", json={"image_id": cast.image.id}).json["task_id"]
    answer = api_as("owner", "GET", f"{path}/install").json
    assert (answer["task"]["id"], answer["task"]["status"], answer["logs"]) == (first, "queued", [])
    run_tasks()
    answer = api_as("owner", "GET", f"{path}/install").json
    assert (answer["task"]["status"], answer["task"]["progress"]) == ("completed", 100)
    assert answer["logs"][0]["message"] == "Preparing"
    again = api_as("owner", "POST", f"{path}/reinstall", json={}).json["task_id"]
    assert api_as("owner", "GET", f"{path}/install").json["task"]["id"] == again


def test_instance_activity_lists_events(api_as, cast, run_tasks):
    instance = cast.instance()
    path = f"/api/instance/{instance.id}"
    api_as("owner", "POST", f"{path}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    api_as("owner", "POST", f"{path}/power/poweroff")
    run_tasks()
    answer = api_as("owner", "GET", f"{path}/events").json
    newest = answer["data"][0]
    assert (newest["kind"], newest["data"]) == (
        "instance.status_changed",
        {"status": "stopped", "previous": "running"},
    )
    assert newest["actor"] == cast.owner.email
    assert answer["data"][-1]["kind"] == "instance.created"
    assert answer["total"] == len(answer["data"])
    assert len(api_as("owner", "GET", f"{path}/events?per_page=1&page=2").json["data"]) == 1
    assert session.get(Instance, instance.id).state == "stopped"
