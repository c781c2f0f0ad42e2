"""Alert rules by the API."""

import pytest


def create_alert_rule(api_as, caller="owner", **values):
    return api_as(caller, "POST", "/api/alert-rules", json={"name": "first", **values})


def test_alert_rule_is_created_changed_and_deleted(api_as):
    created = create_alert_rule(api_as, description="a note").json["alert_rule"]
    assert (created["name"], created["description"]) == ("first", "a note")
    assert [row["id"] for row in api_as("owner", "GET", "/api/alert-rules").json["data"]] == [created["id"]]
    path = f"/api/alert-rule/{created['id']}"
    changed = api_as("owner", "PATCH", path, json={"name": "second", "description": ""}).json["alert_rule"]
    assert (changed["name"], changed["description"]) == ("second", "")
    assert api_as("owner", "GET", path).json["alert_rule"] == changed
    assert api_as("owner", "DELETE", path).json["success"] is True
    assert api_as("owner", "GET", path).status_code == 404


@pytest.mark.parametrize(("field", "value"), [("name", ""), ("name", "x" * 256), ("description", None), ("else", 1)])
def test_invalid_alert_rule_is_a_field_error(api_as, field, value):
    answer = create_alert_rule(api_as, **{field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert api_as("owner", "GET", "/api/alert-rules").json["total"] == 0


def test_foreign_alert_rule_is_not_found(api_as):
    path = f"/api/alert-rule/{create_alert_rule(api_as).json['alert_rule']['id']}"
    assert api_as("outsider", "GET", "/api/alert-rules").json["total"] == 0
    assert api_as("outsider", "GET", path).status_code == 404
    assert api_as("outsider", "PATCH", path, json={"name": "mine"}).status_code == 404
    assert api_as("outsider", "DELETE", path).status_code == 404


def test_alert_rule_list_takes_constant_number_of_queries(api_as, queries):
    create_alert_rule(api_as)
    queries.clear()
    api_as("owner", "GET", "/api/alert-rules")
    few = len(queries)
    for number in range(5):
        create_alert_rule(api_as, name=f"more {number}")
    queries.clear()
    assert api_as("owner", "GET", "/api/alert-rules").json["total"] == 6
    assert len(queries) == few
