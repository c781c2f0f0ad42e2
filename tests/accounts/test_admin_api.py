"""Users in the operators' API."""

import pytest

from panel.core.db import session
from panel.models import Account
from panel.services import accounts

USERS_PATH = "/api/v1/users"


def test_created_user_can_sign_in(api_as):
    body = {"email": "Ada@Example.com", "password": "correct horse", "first_name": "Ada", "timezone": "Europe/Berlin"}
    answer = api_as("admin", "POST", USERS_PATH, json=body)
    assert answer.status_code == 200
    data = answer.json["data"]
    assert (data["email"], data["timezone"], data["is_admin"], data["instances"]) == (
        "ada@example.com",
        "Europe/Berlin",
        False,
        0,
    )
    assert "password" not in answer.text
    assert accounts.authenticate("ada@example.com", "correct horse").id == data["id"]
    shown = api_as("admin", "GET", f"/api/v1/user/{data['id']}").json["data"]
    assert {k for k in data if data[k] != shown[k]} <= {"last_login_at", "updated_at"}


INVALID_FIELD_VALUES = {
    "email": ["OWNER@example.com", "nobody", "", None],
    "password": ["short", "x" * 129],
    "timezone": ["Mars/Olympus"],
    "operator_role": ["full"],
}


@pytest.mark.parametrize("field", INVALID_FIELD_VALUES)
def test_invalid_user_fields_are_refused(api_as, field):
    for value in INVALID_FIELD_VALUES[field]:
        answer = api_as("admin", "POST", USERS_PATH, json={"email": "new@example.com", field: value})
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {field}), value
    assert accounts.find_by_email("new@example.com") is None


def test_user_list_searches_name_and_email(api_as, cast):
    names = lambda text: [row["email"] for row in api_as("admin", "GET", f"{USERS_PATH}?search={text}").json["data"]]  # noqa: E731
    assert (names("olga"), names("OWNER@"), names("%25")) == (["owner@example.com"], ["owner@example.com"], [])


def test_user_list_counts_instances_with_constant_queries(api_as, cast, queries):
    cast.instance("outsider")
    api_as("admin", "GET", USERS_PATH)
    queries.clear()
    api_as("admin", "GET", USERS_PATH)
    few = len(queries)
    session.add_all(Account(email=f"{number}@example.com") for number in range(30))
    session.commit()
    queries.clear()
    rows = {row["email"]: row["instances"] for row in api_as("admin", "GET", USERS_PATH).json["data"]}
    assert len(queries) == few
    assert (len(rows), rows["outsider@example.com"], rows["owner@example.com"]) == (35, 1, 0)


def test_unknown_user_returns_404(api_as):
    """ENV-10"""
    assert api_as("admin", "GET", "/api/v1/user/0199c0a8-0000-7000-8000-000000000000").status_code == 404
