"""Operators delete records of tasks (DELETE /api/v1/task/{id})."""

from panel.core.db import session
from panel.models import Task


def test_task_record_is_deleted_only_after_task_ended(api_as, cast, run_tasks):
    instance = cast.instance()
    body = {"image_id": cast.image.id}
    task_id = api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json=body).json["task_id"]
    path = f"/api/v1/task/{task_id}"
    refused = api_as("admin", "DELETE", path)
    assert (refused.status_code, refused.json["reason"]) == (409, "task_running")
    run_tasks()
    assert api_as("outsider", "DELETE", path).status_code in (401, 403)
    answer = api_as("admin", "DELETE", path)
    assert (answer.status_code, answer.json["success"]) == (200, True)
    assert session.get(Task, task_id) is None
    assert api_as("admin", "DELETE", path).status_code == 404
