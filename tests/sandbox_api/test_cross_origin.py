"""Pages of other origins use the sandbox API with a key."""

import pytest

from panel.server import refusals

ORIGIN = {"Origin": "https://shop.example.com"}


@pytest.mark.parametrize("path", ["/v2/sandboxes", "/sandboxes/unknown/timeout", "/nothing"])
def test_preflight_needs_no_key(call, path):
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key,content-type"}
    answer = call("OPTIONS", path, key="", headers=ORIGIN | asked)
    assert (answer.status_code, answer.data) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Headers"] == "x-api-key,content-type"
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["Access-Control-Allow-Methods"].split(", "))


@pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [("GET", "/v2/sandboxes", None, 200), ("GET", "/v2/sandboxes", "e2b_00", 401), ("PUT", "/nothing", None, 404)],
)
def test_pages_can_read_answers_and_errors(call, method, path, key, status):
    answer = call(method, path, key=key, headers=ORIGIN)
    assert answer.status_code == status
    assert answer.headers.getlist("Access-Control-Allow-Origin") == ["*"]
    assert answer.headers["Access-Control-Expose-Headers"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers


def test_pages_can_read_refusals_of_the_web_server():
    headers, _body = refusals.build_content(refusals.HEAD_TOO_LARGE, "/api/sbx/v2/sandboxes")
    assert headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("path", ["/healthz", "/api/version", "/api/v1/instances", "/sign-in", "/api/sbxother"])
def test_other_paths_are_not_shared(rolled_back_app, path):
    client = rolled_back_app.test_client()
    for method in ("GET", "OPTIONS"):
        answer = client.open(path, method=method, headers=ORIGIN | {"Access-Control-Request-Method": "GET"})
        assert not [name for name, _value in answer.headers if name.startswith("Access-Control")]
