"""What programs ask for often: an instance in brief, its installation, what happened to it."""

from panel.core.db import session
from panel.models import Instance


def test_an_instance_in_brief(as_, cast, work, queries):
    made = cast.instance()
    path = f"/api/instance/{made.id}"
    words = {"id": made.id, "name": made.name, "deployed": False, "status": 0, "state": "pending", "last_error": None}
    assert as_("owner", "GET", f"{path}/fetch").json == {**words, "task_running": False, "task": None}
    asked = as_("owner", "POST", f"{path}/deploy", json={"image_id": cast.image.id}).json["task_id"]
    queries.clear()
    during = as_("owner", "GET", f"{path}/fetch").json
    assert len(queries) < 12
    assert (during["task_running"], during["task"]["id"], during["task"]["status"]) == (True, asked, "queued")
    work()
    after = as_("owner", "GET", f"{path}/fetch").json
    assert (after["state"], after["status"], after["deployed"], after["task"]) == ("running", 1, True, None)


def test_how_far_the_installation_is(as_, cast, work):
    path = f"/api/instance/{cast.instance().id}"
    assert as_("owner", "GET", f"{path}/install").json == {"task": None, "logs": []}
    first = as_("owner", "POST", f"{path}/deploy", json={"image_id": cast.image.id}).json["task_id"]
    found = as_("owner", "GET", f"{path}/install").json
    assert (found["task"]["id"], found["task"]["status"], found["logs"]) == (first, "queued", [])
    work()
    found = as_("owner", "GET", f"{path}/install").json
    assert (found["task"]["status"], found["task"]["progress"]) == ("completed", 100)
    assert found["logs"][0]["message"] == "Preparing"
    again = as_("owner", "POST", f"{path}/reinstall", json={}).json["task_id"]
    assert as_("owner", "GET", f"{path}/install").json["task"]["id"] == again


def test_what_happened_to_it(as_, cast, work):
    made = cast.instance()
    path = f"/api/instance/{made.id}"
    as_("owner", "POST", f"{path}/deploy", json={"image_id": cast.image.id})
    work()
    as_("owner", "POST", f"{path}/power/poweroff")
    work()
    found = as_("owner", "GET", f"{path}/events").json
    newest = found["data"][0]
    assert (newest["kind"], newest["data"]) == (
        "instance.status_changed",
        {"status": "stopped", "previous": "running"},
    )
    assert newest["actor"] == cast.owner.email
    assert found["data"][-1]["kind"] == "instance.created"
    assert found["total"] == len(found["data"])
    assert len(as_("owner", "GET", f"{path}/events?per_page=1&page=2").json["data"]) == 1
    assert session.get(Instance, made.id).state == "stopped"
