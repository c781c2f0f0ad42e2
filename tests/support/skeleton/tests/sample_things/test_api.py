"""Sample things by the API."""

import pytest


def create_sample_thing(api_as, caller="owner", **values):
    return api_as(caller, "POST", "/api/sample-things", json={"name": "first", **values})


def test_sample_thing_is_created_changed_and_deleted(api_as):
    created = create_sample_thing(api_as, description="a note").json["sample_thing"]
    assert (created["name"], created["description"]) == ("first", "a note")
    assert [row["id"] for row in api_as("owner", "GET", "/api/sample-things").json["data"]] == [created["id"]]
    path = f"/api/sample-thing/{created['id']}"
    changed = api_as("owner", "PATCH", path, json={"name": "second", "description": ""}).json["sample_thing"]
    assert (changed["name"], changed["description"]) == ("second", "")
    assert api_as("owner", "GET", path).json["sample_thing"] == changed
    assert api_as("owner", "DELETE", path).json["success"] is True
    assert api_as("owner", "GET", path).status_code == 404


@pytest.mark.parametrize(("field", "value"), [("name", ""), ("name", "x" * 256), ("description", None), ("else", 1)])
def test_invalid_sample_thing_is_a_field_error(api_as, field, value):
    answer = create_sample_thing(api_as, **{field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert api_as("owner", "GET", "/api/sample-things").json["total"] == 0


def test_foreign_sample_thing_is_not_found(api_as):
    path = f"/api/sample-thing/{create_sample_thing(api_as).json['sample_thing']['id']}"
    assert api_as("outsider", "GET", "/api/sample-things").json["total"] == 0
    assert api_as("outsider", "GET", path).status_code == 404
    assert api_as("outsider", "PATCH", path, json={"name": "mine"}).status_code == 404
    assert api_as("outsider", "DELETE", path).status_code == 404


def test_sample_thing_list_takes_constant_number_of_queries(api_as, queries):
    create_sample_thing(api_as)
    queries.clear()
    api_as("owner", "GET", "/api/sample-things")
    few = len(queries)
    for number in range(5):
        create_sample_thing(api_as, name=f"more {number}")
    queries.clear()
    assert api_as("owner", "GET", "/api/sample-things").json["total"] == 6
    assert len(queries) == few


# if task
def test_task_applies_sample_thing(api_as, run_tasks):
    created = create_sample_thing(api_as).json["sample_thing"]
    assert created["is_applied"] is False
    run_tasks()
    path = f"/api/sample-thing/{created['id']}"
    assert api_as("owner", "GET", path).json["sample_thing"]["is_applied"] is True


def test_changed_sample_thing_is_applied_again(api_as, run_tasks):
    path = f"/api/sample-thing/{create_sample_thing(api_as).json['sample_thing']['id']}"
    run_tasks()
    changed = api_as("owner", "PATCH", path, json={"name": "second"}).json["sample_thing"]
    assert changed["is_applied"] is False
    run_tasks()
    assert api_as("owner", "GET", path).json["sample_thing"]["is_applied"] is True


def test_task_of_deleted_sample_thing_fails(api_as, run_tasks):
    created = create_sample_thing(api_as).json["sample_thing"]
    api_as("owner", "DELETE", f"/api/sample-thing/{created['id']}")
    run_tasks()
    task = api_as("owner", "GET", "/api/tasks").json["data"][0]
    assert (task["status"], task["error"]) == ("failed", "The sample thing was deleted.")


# end if
