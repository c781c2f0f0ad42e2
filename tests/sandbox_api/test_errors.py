"""Errors of the sandbox API, also those that the framework and the web server make."""

import json

import pytest

from panel.server import refusals
from panel.services import microvms


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "", 404),
        ("GET", "/nothing", 404),
        ("GET", "/sandboxes/unknown", 404),
        ("DELETE", "/sandboxes/unknown", 404),
        ("POST", "/sandboxes/unknown/snapshots", 404),
        ("POST", "/sandboxes/unknown/fork", 404),
        ("GET", "/sandboxes/unknown/logs", 404),
        ("GET", "/v2/sandboxes/unknown/logs", 404),
        ("GET", "/snapshots", 404),
        ("DELETE", "/templates/unknown", 404),
        ("GET", "/templates/aliases/unknown", 404),
        ("PATCH", "/v2/sandboxes", 405),
        ("POST", "/health", 405),
    ],
)
def test_what_is_not_offered_has_the_form_of_other_errors(call, method, path, status):
    """SBX-04: `code` and `message`, and no word of the panel's own envelope."""
    answer = call(method, path)
    assert answer.status_code == status
    assert answer.json.keys() == {"code", "message"}
    assert answer.json["code"] == status


def test_trailing_slash_does_not_matter(call):
    assert call("GET", "/v2/sandboxes/").status_code == 200


@pytest.mark.parametrize("content", [b"{", b"[]", b'"a"', b"\xff", b"null"])
def test_body_that_is_no_object_is_refused(call, content):
    answer = call("POST", "/v2/sandboxes", data=content)
    assert (answer.status_code, answer.json["code"]) == (400, 400)


def test_body_is_read_whatever_its_type_is(call, image, profile):
    answer = call("POST", "/sandboxes", data=b'{"templateID": "base"}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 201


def test_too_large_body_is_refused(call):
    answer = call("POST", "/v2/sandboxes", data=b" " * (5 * 1024 * 1024))
    assert (answer.status_code, answer.json["code"]) == (413, 413)


def test_control_character_in_query_is_refused(call):
    assert call("GET", "/v2/sandboxes?state=%00").json["code"] == 422


def test_crash_has_the_form_of_other_errors(call, monkeypatch):
    monkeypatch.setattr(microvms, "get_by_sandbox_id", lambda *_: 1 / 0)
    answer = call("GET", "/sandboxes/abc")
    assert (answer.status_code, answer.json["code"]) == (500, 500)
    assert "ZeroDivision" not in answer.text


def test_refusal_of_the_web_server_has_the_form_of_other_errors():
    _headers, body = refusals.build_content(refusals.HEAD_TOO_LARGE, "/api/sbx/v2/sandboxes")
    assert json.loads(body) == {"code": 431, "message": refusals.HEAD_TOO_LARGE.message}
