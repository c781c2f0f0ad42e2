"""Both APIs, sent what nobody should send: clear refusals in the dialect of the path and never a fault of ours.

That every refusal has its dialect's form is looked at for each answer of the suite (tests.support.response_assertions).
"""

import json
from io import BytesIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as any_

from panel.app import MAX_BODY_BYTES
from tests.support import malformed_input
from tests.test_architecture import find_operations

WRITE_OPERATIONS = [("owner", "POST", "/api/ssh-keys"), ("admin", "POST", "/api/v1/instances")]
UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"
PROPERTY_SETTINGS = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def list_operations(app):
    """Every operation with somebody who may use it."""
    for surface, who in (("USER", "owner"), ("ADMIN", "admin")):
        for method, path, operation in find_operations(app, surface):
            yield "billing" if path.startswith("/api/v1/billing") else who, method, path, operation


def assert_refused(answer, *statuses):
    assert answer.status_code in statuses, (answer.request.path[:200], answer.status, answer.text[:300])


@pytest.mark.parametrize("value", malformed_input.AUTHORIZATION_HEADERS)
def test_an_authorization_header_that_is_none(api_as, value):
    """ENV-04, ENV-05: without a bearer value there is no token, and any other value is a wrong one."""
    has_value = value[:7].lower() == "bearer " and value[7:].strip()
    assert_refused(api_as("nobody", "GET", "/api/connect", headers={"Authorization": value}), 401)
    for path in ("/api/v1/auth", "/api/v1/billing/auth"):
        answer = api_as("nobody", "GET", path, headers={"Authorization": value})
        assert_refused(answer, 401 if has_value else 403)
        assert answer.json == {"success": False, "message": "Unauthorized!"}


def test_two_authorization_headers_are_none(api_as, cast):
    """Which of them is meant is not for us to guess, even if one is right."""
    right = cast.headers("owner")["Authorization"]
    for pair in ([right, "Bearer x"], [right, right]):
        assert_refused(api_as("nobody", "GET", "/api/connect", headers={"Authorization": ",".join(pair)}), 401)


@pytest.mark.parametrize("value", malformed_input.MALFORMED_IDS, ids=lambda value: value[:12])
def test_odd_ids(app, api_as, unlimited, value):
    """Every operation with an id in its path: there is no such thing, whatever it is called."""
    for who, method, path, operation in list_operations(app):
        if "{" in path and not {"task_kind", "action"} & {p["name"] for p in operation.get("parameters", [])}:
            assert_refused(api_as(who, method, malformed_input.fill_path(path, value), data=b""), 404, 405, 422)


@pytest.mark.parametrize("query", malformed_input.MALFORMED_QUERIES, ids=lambda query: query[:16])
def test_odd_queries(app, api_as, unlimited, query):
    for who, method, path, _ in list_operations(app):
        if method == "GET" and "{" not in path:
            assert_refused(api_as(who, "GET", f"{path}?{query}"), 200, 404, 422)


@pytest.mark.parametrize("body", malformed_input.INVALID_JSON_BODIES, ids=lambda body: repr(body[:16]))
def test_bodies_that_are_no_json_object(app, api_as, unlimited, body):
    """ENV-33, ERR-12"""
    for who, method, path in WRITE_OPERATIONS:
        answer = api_as(who, method, path, data=body, content_type="application/json")
        assert_refused(answer, 400)
        assert "body" in answer.json["message"]
        assert "X-Failure-Status-Mapped" not in answer.headers  # OP-11: the 400 was chosen


def test_a_key_that_is_there_twice_is_named(api_as):
    answer = api_as("owner", "POST", "/api/ssh-keys", data=b'{"name": "a", "public_key": "b", "name": "c"}')
    assert (answer.status_code, answer.json["message"]) == (400, "The body names name twice.")


def test_depth_is_counted_in_what_is_nested_and_not_in_brackets(api_as):
    body = {"name": "[" * 200, "public_key": "{" * 200}
    assert_refused(api_as("owner", "POST", "/api/ssh-keys", json=body), 422)


@pytest.mark.parametrize("kind", malformed_input.CONTENT_TYPES)
def test_json_is_read_whatever_it_is_called(api_as, cast, kind):
    """curl calls everything a form that it is not told about."""
    path = f"/api/instance/{cast.instance().id}"
    answer = api_as("owner", "PATCH", path, data=b'{"notes": "n"}', content_type=kind)
    assert (answer.status_code, answer.json["instance"]["notes"]) == (200, "n")


@pytest.mark.parametrize("kind", malformed_input.CONTENT_TYPES)
def test_what_is_no_json_is_refused_whatever_it_is_called(api_as, cast, kind):
    path = f"/api/instance/{cast.instance().id}"
    assert_refused(api_as("owner", "PATCH", path, data=b"notes=n", content_type=kind), 400)


def test_odd_values_in_every_field(app, api_as, unlimited):
    """Each field of each body, with each value, the others left out: refused, or taken where it is a good one."""
    tried = 0
    for who, method, path, operation in list_operations(app):
        for name in fields_of(app, operation):
            for value in malformed_input.ODD_VALUES[tried % 4 :: 4]:  # over all fields each of them several times
                answer = api_as(
                    who, method, malformed_input.fill_path(path, UNKNOWN_ID), data=json.dumps({name: value})
                )
                assert answer.status_code < 500, (path, name, value, answer.text[:300])
                tried += 1
    assert tried > 500


def fields_of(app, operation):
    content = operation.get("requestBody", {}).get("content", {})
    for form in content.values():
        name = form["schema"].get("$ref", "").rpartition("/")[2]
        for kind in ("USER", "ADMIN"):
            schemas = app.extensions["openapi"][kind].spec.components.schemas
            yield from schemas.get(name, {}).get("properties", {})


def test_odd_values_in_fields_of_what_exists(app, api_as, cast, unlimited):
    """The same for changes of a machine that is there."""
    instance = cast.instance().id
    for who, path in (("owner", f"/api/instance/{instance}"), ("admin", f"/api/v1/instance/{instance}")):
        operation = next(o for w, m, p, o in list_operations(app) if w == who and m == "PATCH" and "instance/{" in p)
        for name in fields_of(app, operation):
            for value in malformed_input.ODD_VALUES[len(name) % 2 :: 2]:
                assert_refused(api_as(who, "PATCH", path, data=json.dumps({name: value})), 200, 422)


JSON = any_.recursive(
    any_.none() | any_.booleans() | any_.integers() | any_.floats() | any_.text(max_size=40),
    lambda inner: any_.lists(inner, max_size=4) | any_.dictionaries(any_.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
KEYS = any_.sampled_from(["name", "public_key", "plan_id", "location_id", "hostname", "protected", "enable_vnc"])


@PROPERTY_SETTINGS
@given(body=any_.dictionaries(KEYS | any_.text(max_size=12), JSON, max_size=6))
def test_any_json_object(api_as, unlimited, body):
    """Also NaN and infinities, which Python writes and JSON does not know, and lone surrogates."""
    text = json.dumps(body)
    for who, method, path in WRITE_OPERATIONS:
        assert_refused(api_as(who, method, path, data=text), 201, 200, 400, 404, 422)


@PROPERTY_SETTINGS
@given(body=any_.binary(max_size=200))
def test_any_bytes(api_as, unlimited, body):
    for who, method, path in WRITE_OPERATIONS:
        assert_refused(api_as(who, method, path, data=body), 400, 422)


@PROPERTY_SETTINGS
@given(
    query=any_.dictionaries(any_.text(max_size=10) | any_.sampled_from(["page", "per_page"]), any_.text(max_size=20))
)
def test_any_query(api_as, unlimited, query):
    for who, path in (("owner", "/api/instances"), ("admin", "/api/v1/instances"), ("admin", "/api/v1/tasks")):
        assert_refused(api_as(who, "GET", path, query_string=query), 200, 404, 422)


@PROPERTY_SETTINGS
@given(path=any_.text(max_size=60))
def test_any_path(api_as, unlimited, path):
    for start in ("/api/", "/api/v1/", "/api/instance/", "/api/v1/instance/"):
        assert_refused(api_as("owner", "GET", start + path), 200, 401, 403, 404, 405, 422)


@PROPERTY_SETTINGS
@given(value=any_.text(any_.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=100))
def test_any_authorization(api_as, unlimited, value):
    for start in ("", "Bearer ", "bearer "):
        assert_refused(api_as("nobody", "GET", "/api/connect", headers={"Authorization": start + value}), 401)
        assert_refused(api_as("nobody", "GET", "/api/v1/auth", headers={"Authorization": start + value}), 401, 403)


def test_chunked_bodies(api_as):
    """They have no length: what counts is what arrives."""

    def chunked(who, path, body):
        options = {"headers": {"Transfer-Encoding": "chunked"}, "environ_overrides": {"wsgi.input_terminated": True}}
        return api_as(who, "POST", path, input_stream=BytesIO(body), **options)

    for who, _, path in WRITE_OPERATIONS:
        assert_refused(chunked(who, path, b"{}"), 422)
        assert_refused(chunked(who, path, b'{"nosuch": '), 400)
        assert_refused(chunked(who, path, b" " * (MAX_BODY_BYTES + 1)), 413)


def test_a_body_that_ends_early(api_as):
    for who, _, path in WRITE_OPERATIONS:
        options = {"environ_overrides": {"CONTENT_LENGTH": "50", "wsgi.input_terminated": True}}
        assert_refused(api_as(who, "POST", path, input_stream=BytesIO(b"{}"), **options), 400)
