"""Browser sessions in the admin API."""

from panel.core.db import generate_id, session
from panel.services import sessions

SESSIONS_PATH = "/api/v1/sessions"


def test_sessions_are_listed_and_ended_by_operator(api_as, browser_as, cast, queries):
    owner, outsider = browser_as("owner"), browser_as("outsider")
    rows = api_as("admin", "GET", SESSIONS_PATH).json["data"]
    assert [row["email"] for row in rows] == ["outsider@example.com", "owner@example.com"]
    assert {row["impersonator"] for row in rows} == {None}
    assert not [name for name in rows[0] if "secret" in name or "hash" in name]
    for query in (f"user_id={cast.owner.id}", "search=owner@"):
        (owner_row,) = api_as("admin", "GET", f"{SESSIONS_PATH}?{query}").json["data"]
        assert owner_row["user_id"] == cast.owner.id
    assert api_as("admin", "DELETE", f"/api/v1/session/{owner_row['id']}").status_code == 200
    assert owner.get("/profile").status_code == 303
    assert outsider.get("/profile").status_code == 200
    for session_id in (owner_row["id"], generate_id()):
        assert api_as("admin", "DELETE", f"/api/v1/session/{session_id}").status_code == 404


def test_session_list_names_impersonator(api_as, cast):
    sessions.start(cast.owner, ip="127.0.0.1", user_agent="test", impersonator=cast.admin)
    session.commit()
    (row,) = api_as("admin", "GET", SESSIONS_PATH).json["data"]
    assert (row["email"], row["impersonator"]) == ("owner@example.com", "admin@example.com")


def test_session_list_query_count_is_constant(api_as, browser_as, queries):
    browser_as("owner")
    api_as("admin", "GET", SESSIONS_PATH)
    queries.clear()
    api_as("admin", "GET", SESSIONS_PATH)
    query_count = len(queries)
    browser_as("outsider"), browser_as("member")
    queries.clear()
    assert len(api_as("admin", "GET", SESSIONS_PATH).json["data"]) == 3
    assert len(queries) == query_count
