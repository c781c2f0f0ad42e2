"""Signed-in browsers, in operators' hands."""

from panel.core.db import new_id, session
from panel.services import sessions

SESSIONS = "/api/v1/sessions"


def test_browsers_are_listed_and_signed_out(api_as, browser_as, cast, queries):
    owner, outsider = browser_as("owner"), browser_as("outsider")
    found = api_as("admin", "GET", SESSIONS).json["data"]
    assert [each["email"] for each in found] == ["outsider@example.com", "owner@example.com"]
    assert {each["impersonator"] for each in found} == {None}
    assert not [name for name in found[0] if "secret" in name or "hash" in name]
    for query in (f"user_id={cast.owner.id}", "search=owner@"):
        (mine,) = api_as("admin", "GET", f"{SESSIONS}?{query}").json["data"]
        assert mine["user_id"] == cast.owner.id
    assert api_as("admin", "DELETE", f"/api/v1/session/{mine['id']}").status_code == 200
    assert owner.get("/profile").status_code == 303
    assert outsider.get("/profile").status_code == 200
    for gone in (mine["id"], new_id()):
        assert api_as("admin", "DELETE", f"/api/v1/session/{gone}").status_code == 404


def test_an_operator_who_is_somebody_else_is_named(api_as, cast):
    sessions.start(cast.owner, ip="127.0.0.1", user_agent="test", impersonator=cast.admin)
    session.commit()
    (found,) = api_as("admin", "GET", SESSIONS).json["data"]
    assert (found["email"], found["impersonator"]) == ("owner@example.com", "admin@example.com")


def test_the_list_costs_the_same_for_many(api_as, browser_as, queries):
    browser_as("owner")
    api_as("admin", "GET", SESSIONS)
    queries.clear()
    api_as("admin", "GET", SESSIONS)
    few = len(queries)
    browser_as("outsider"), browser_as("member")
    queries.clear()
    assert len(api_as("admin", "GET", SESSIONS).json["data"]) == 3
    assert len(queries) == few
