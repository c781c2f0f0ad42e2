"""Both dialects: envelopes, errors, paging, bad input."""

import json

import pytest

from panel.core.db import parse_json, session
from panel.core.errors import Conflict, Forbidden, Invalid, NotFound, Problem, Unavailable
from panel.services import settings
from tests.support.operations import find_operations, recorded_schedule  # noqa: F401  (fixture)


@pytest.fixture(autouse=True)
def billing_enabled(rolled_back_app, recorded_schedule):
    """Enable billing: without it, lists of billed resources return only an error."""
    settings.update({"billing_enabled": True})


def list_operations(app, surface):
    return [
        path
        for method, path, operation in find_operations(app, surface)
        if method == "GET" and "{" not in path and any(p["name"] == "per_page" for p in operation.get("parameters", []))
    ]


def find_caller(caller, path):
    return "billing" if path.startswith("/api/v1/billing/") else caller


@pytest.mark.parametrize(("caller", "surface"), [("owner", "USER"), ("admin", "ADMIN")])
def test_per_page_accepts_1_to_100(api_as, app, caller, surface):
    """LIM-01, LIM-02, LIM-03"""
    paths = list_operations(app, surface)
    assert paths
    for path in paths:
        for good in (1, 100):
            assert api_as(find_caller(caller, path), "GET", f"{path}?per_page={good}").status_code == 200, path
        for bad in ("0", "101", "-1", "many", "1.5", ""):
            answer = api_as(find_caller(caller, path), "GET", f"{path}?per_page={bad}")
            assert answer.status_code == 422, (path, bad)
            assert "per_page" in answer.json["errors"]


def test_admin_answers_have_the_envelope(api_as, cast):
    """ENV-01, ENV-02, ENV-18"""
    instance = cast.instance()
    answers = [
        api_as("admin", "GET", "/api/v1/auth"),
        api_as("admin", "GET", "/api/v1/instances"),
        api_as("admin", "GET", f"/api/v1/instance/{instance.id}"),
        api_as("admin", "PATCH", f"/api/v1/instance/{instance.id}", json={"notes": "x"}),
        api_as("admin", "POST", f"/api/v1/instance/{instance.id}/power/start"),
        api_as("admin", "GET", "/api/v1/nosuch"),
        api_as("admin", "DELETE", "/api/v1/tasks"),
        api_as("admin", "POST", "/api/v1/instances", data="{", content_type="application/json"),
    ]
    for answer in answers:
        assert answer.json.keys() <= {"success", "message", "data", "meta", "errors", "reason"}
        assert answer.headers["X-Api-Envelope"] == "v1"
        assert answer.json["success"] is (answer.status_code < 400)
        assert "X-Failure-Status-Mapped" not in answer.headers  # ENV-17


PLAIN_PROBLEM = Problem("Not like this.", reason="not_so", extra={"left": 1}, name="Too odd.")
PROBLEM_WITH_STATUS = Problem("Not like this.", status=400, reason="catalog_mismatch")
REFUSAL_BODY = {
    "success": False,
    "message": "Not like this.",
    "reason": "not_so",
    "errors": {"name": ["Odd."]},
    "left": 1,
}
TASK_LISTS = [("admin", "/api/v1/tasks"), ("owner", "/api/tasks")]


def refuse_task_lists(monkeypatch, error):
    """Make both task lists raise this error."""

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr("panel.services.tasks.listing", refuse)


def test_problem_without_status_is_mapped_to_400(api_as, monkeypatch):
    """ENV-15, ENV-16, ENV-22, ENV-23, ERR-03, VER-06"""
    refuse_task_lists(monkeypatch, PLAIN_PROBLEM)
    body = {"success": False, "message": "Not like this.", "reason": "not_so", "errors": {"name": ["Too odd."]}}
    answer = api_as("admin", "GET", "/api/v1/tasks")
    assert (answer.status_code, answer.headers["X-Failure-Status-Mapped"]) == (400, "1")
    assert answer.json == body | {"data": {"left": 1}}
    answer = api_as("owner", "GET", "/api/tasks")
    assert (answer.status_code, "X-Failure-Status-Mapped" in answer.headers) == (400, False)
    assert answer.json == body | {"left": 1}


@pytest.mark.parametrize("kind", [Conflict, Invalid, Unavailable, NotFound, Forbidden])
def test_status_of_error_class_is_not_mapped(api_as, monkeypatch, kind):
    """ENV-17"""
    refuse_task_lists(monkeypatch, kind("Not now.", reason="not_so"))
    for caller, path in TASK_LISTS:
        answer = api_as(caller, "GET", path)
        assert (answer.status_code, "X-Failure-Status-Mapped" in answer.headers) == (kind.status, False)
        assert answer.json == {"success": False, "message": "Not now.", "reason": "not_so"}


def test_explicit_400_is_not_mapped(api_as, monkeypatch):
    """OP-11, ERR-09"""
    refuse_task_lists(monkeypatch, PROBLEM_WITH_STATUS)
    for caller, path in TASK_LISTS:
        answer = api_as(caller, "GET", path)
        assert (answer.status_code, "X-Failure-Status-Mapped" in answer.headers) == (400, False)
        assert answer.json["reason"] == "catalog_mismatch"


def test_failure_body_answers_400_and_rolls_back(api_as, cast, monkeypatch):
    """ENV-15, ENV-16, ENV-18: the same when the view returns the body instead of raising an error."""
    instance = cast.instance()

    def rename(*_, **__):
        instance.display_name = "changed"
        session.flush()
        return REFUSAL_BODY

    monkeypatch.setattr("panel.services.tasks.cancel", rename)
    monkeypatch.setattr("panel.services.tasks.get", lambda *_: None)
    answer = api_as("admin", "POST", "/api/v1/task/0199c0a8-0000-7000-8000-000000000000/cancel")
    assert (answer.status_code, answer.headers["X-Failure-Status-Mapped"]) == (400, "1")
    assert answer.json == {**{name: REFUSAL_BODY[name] for name in REFUSAL_BODY if name != "left"}, "data": {"left": 1}}
    assert instance.display_name != "changed"


def test_user_answers_have_no_envelope(api_as, cast):
    """ENV-32, INS-33"""
    answer = api_as("owner", "GET", f"/api/instance/{cast.instance().id}")
    assert "X-Api-Envelope" not in answer.headers
    assert {"id", "state"} <= answer.json.keys()


def test_unknown_admin_paths_and_ids_answer_404(api_as):
    """ENV-09, ENV-10, ENV-11"""
    assert api_as("admin", "GET", "/api/v1/nosuch").status_code == 404
    assert api_as("admin", "GET", "/api/v1/instance/0199c0a8-0000-7000-8000-000000000000").status_code == 404
    wrong = api_as("admin", "DELETE", "/api/v1/tasks")
    assert wrong.status_code == 405
    assert "GET" in wrong.headers["Allow"]


def test_user_errors_are_json(api_as):
    """ERR-12"""
    assert api_as("owner", "GET", "/api/nosuch").json["success"] is False
    assert api_as("owner", "PUT", "/api/instances").status_code == 405
    broken = api_as("owner", "POST", "/api/ssh-keys", data="{", content_type="application/json")
    assert broken.status_code == 400
    assert "JSON" in broken.json["message"]


def test_admin_list_has_page_metadata(api_as, cast):
    """ENV-19, ENV-20, ENV-21, OTH-11"""
    for _ in range(3):
        cast.instance()
    first = api_as("admin", "GET", "/api/v1/instances?per_page=2").json
    assert len(first["data"]) == 2
    assert first["meta"] == {"current_page": 1, "per_page": 2, "total": 3, "last_page": 2, "from": 1, "to": 2}
    second = api_as("admin", "GET", "/api/v1/instances?per_page=2&page=2").json
    assert (len(second["data"]), second["meta"]["from"], second["meta"]["to"]) == (1, 3, 3)


def test_user_list_has_page_fields_at_top_level(api_as, cast):
    for _ in range(3):
        cast.instance()
    first = api_as("owner", "GET", "/api/instances?per_page=2").json
    assert (first["current_page"], first["last_page"], first["total"], len(first["data"])) == (1, 2, 3, 2)
    beyond = api_as("owner", "GET", "/api/instances?per_page=2&page=9").json
    assert (beyond["data"], beyond["from"], beyond["to"]) == ([], None, None)


def test_crash_answers_500_in_dialect_without_traceback(api_as, monkeypatch):
    """ENV-14"""

    def crash(*_, **__):
        raise RuntimeError("secret internals")

    monkeypatch.setattr("panel.services.instances.select_rows", crash)
    for caller, path in (("admin", "/api/v1/instances"), ("owner", "/api/instances")):
        answer = api_as(caller, "GET", path)
        assert answer.status_code == 500
        assert answer.json["success"] is False
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text
        assert answer.headers["X-Request-Id"] in answer.json["message"]


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b" null "])
def test_empty_body_is_an_empty_object(api_as, body):
    answer = api_as("owner", "POST", "/api/ssh-keys", data=body)
    assert answer.status_code == 422
    assert answer.json["errors"].keys() == {"name", "public_key"}


def test_answers_support_etag_and_compression(api_as, cast):
    for _ in range(20):
        cast.instance()
    plain = api_as("owner", "GET", "/api/instances")
    first = api_as("owner", "GET", "/api/instances", headers={"Accept-Encoding": "gzip"})
    assert first.headers["Content-Encoding"] == "gzip"
    assert first.headers["ETag"] == f'{plain.headers["ETag"].removesuffix(chr(34))}:gzip"'
    again = api_as(
        "owner",
        "GET",
        "/api/instances",
        headers={"Accept-Encoding": "gzip", "If-None-Match": first.headers["ETag"]},
    )
    assert (again.status_code, again.data) == (304, b"")


def test_list_request_executes_no_write_statements(api_as, cast, queries):
    cast.instance()
    queries.clear()
    assert api_as("owner", "GET", "/api/instances").status_code == 200
    assert {statement.split()[0].upper() for statement in queries} <= {"SELECT", "BEGIN", "SAVEPOINT", "RELEASE"}


@pytest.mark.parametrize(("caller", "surface"), [("owner", "USER"), ("admin", "ADMIN")])
def test_lists_take_constant_number_of_queries(api_as, app, cast, queries, caller, surface):
    def count_selects(path):
        queries.clear()
        assert api_as(find_caller(caller, path), "GET", path).status_code == 200
        return len([s for s in queries if s.lstrip().upper().startswith("SELECT")])

    cast.instance()
    api_as(caller, "GET", list_operations(app, surface)[0])  # fills caches, whose queries are not counted
    few = {path: count_selects(path) for path in list_operations(app, surface)}
    for number in range(5):
        cast.instance()
        api_as("owner", "POST", "/api/ssh-key/generate", json={"name": f"k{number}", "algorithm": "ed25519"})
    assert {path: count_selects(path) for path in few} == few


def test_path_with_extra_slash_does_not_redirect(api_as):
    assert api_as("owner", "GET", "/api/instances/").status_code == 200
    assert api_as("owner", "GET", "/api//instances").status_code == 404


def test_crash_log_contains_no_local_variables(api_as, monkeypatch, capfd):
    from panel.core import logs

    def crash(*_, **__):
        hidden = "a password in a variable"
        raise RuntimeError("broken" + hidden[:0])

    logs.setup_logging(False)
    monkeypatch.setattr("panel.services.instances.select_rows", crash)
    assert api_as("owner", "GET", "/api/instances").status_code == 500
    logged = capfd.readouterr().err
    assert "RuntimeError: broken" in logged
    assert "a password in a variable" not in logged.replace('hidden = "a password in a variable"', "")


def test_unique_constraint_violation_answers_409(api_as, monkeypatch):
    """A unique constraint of the database answers 409, even if the service's own check has passed."""
    monkeypatch.setattr("panel.services.projects.ensure_unique_name", lambda *_, **__: None)
    assert api_as("owner", "POST", "/api/projects", json={"name": "shop"}).status_code == 200
    second = api_as("owner", "POST", "/api/projects", json={"name": "shop"})
    assert (second.status_code, second.json["success"]) == (409, False)
    assert "constraint" not in second.text.lower()


@pytest.mark.parametrize("text", ["NaN", '"\\ud83d"'])
def test_stored_non_standard_json_is_parsed(text):
    assert json.dumps(parse_json(text)) == text
