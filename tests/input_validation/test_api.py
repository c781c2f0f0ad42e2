"""Malformed requests to both APIs are refused with a 4xx status.

tests.support.response_assertions checks the form of each answer.
"""

import json
from io import BytesIO

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from panel.app import MAX_BODY_BYTES
from tests.support import malformed_input
from tests.support.cast import UNKNOWN_ID
from tests.support.operations import find_operations

pytestmark = pytest.mark.slow_proof("malformed-input")

WRITE_OPERATIONS = [("owner", "POST", "/api/ssh-keys"), ("admin", "POST", "/api/v1/instances")]
PROPERTY_SETTINGS = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def list_operations(app):
    """Yield every operation with a caller that may use it."""
    for surface, caller in (("USER", "owner"), ("ADMIN", "admin")):
        for method, path, operation in find_operations(app, surface):
            yield "billing" if path.startswith("/api/v1/billing") else caller, method, path, operation


def assert_refused(answer, *statuses):
    assert answer.status_code in statuses, (answer.request.path[:200], answer.status, answer.text[:300])


@pytest.mark.parametrize("value", malformed_input.AUTHORIZATION_HEADERS)
def test_malformed_authorization_header_is_refused(api_as, value):
    """ENV-04, ENV-05: 403 without a bearer value, 401 with an unknown one."""
    has_value = value[:7].lower() == "bearer " and value[7:].strip()
    assert_refused(api_as("nobody", "GET", "/api/connect", headers={"Authorization": value}), 401)
    for path in ("/api/v1/auth", "/api/v1/billing/auth"):
        answer = api_as("nobody", "GET", path, headers={"Authorization": value})
        assert_refused(answer, 401 if has_value else 403)
        assert answer.json == {"success": False, "message": "Unauthorized!"}


def test_two_authorization_headers_are_refused(api_as, cast):
    """The combination is ambiguous, so it is refused even if one header is valid."""
    valid = cast.headers("owner")["Authorization"]
    for pair in ([valid, "Bearer x"], [valid, valid]):
        assert_refused(api_as("nobody", "GET", "/api/connect", headers={"Authorization": ",".join(pair)}), 401)


@pytest.mark.parametrize("value", malformed_input.MALFORMED_IDS, ids=lambda value: value[:12])
def test_malformed_ids_are_refused(app, api_as, unlimited_rates, value):
    """Every operation with an id in its path answers a malformed id with 404, 405 or 422."""
    for caller, method, path, operation in list_operations(app):
        if "{" in path and not {"task_kind", "action"} & {p["name"] for p in operation.get("parameters", [])}:
            assert_refused(api_as(caller, method, malformed_input.fill_path(path, value), data=b""), 404, 405, 422)


@pytest.mark.parametrize("query", malformed_input.MALFORMED_QUERIES, ids=lambda query: query[:16])
def test_malformed_queries_are_refused(app, api_as, unlimited_rates, query):
    for caller, method, path, _ in list_operations(app):
        if method == "GET" and "{" not in path:
            assert_refused(api_as(caller, "GET", f"{path}?{query}"), 200, 404, 422)


@pytest.mark.parametrize("body", malformed_input.INVALID_JSON_BODIES, ids=lambda body: repr(body[:16]))
def test_invalid_json_body_is_refused(app, api_as, unlimited_rates, body):
    """ENV-33, ERR-12"""
    for caller, method, path in WRITE_OPERATIONS:
        answer = api_as(caller, method, path, data=body, content_type="application/json")
        assert_refused(answer, 400)
        assert "body" in answer.json["message"]
        assert "X-Failure-Status-Mapped" not in answer.headers  # OP-11: the 400 is explicit


def test_duplicate_json_key_is_refused_with_its_name(api_as):
    answer = api_as("owner", "POST", "/api/ssh-keys", data=b'{"name": "a", "public_key": "b", "name": "c"}')
    assert (answer.status_code, answer.json["message"]) == (400, "The body contains the key name twice.")


def test_brackets_in_strings_do_not_count_as_nesting(api_as):
    body = {"name": "[" * 200, "public_key": "{" * 200}
    assert_refused(api_as("owner", "POST", "/api/ssh-keys", json=body), 422)


@pytest.mark.parametrize("content_type", malformed_input.CONTENT_TYPES)
def test_json_body_is_parsed_with_any_content_type(api_as, cast, content_type):
    """curl sends data as a form unless another content type is given."""
    path = f"/api/instance/{cast.instance().id}"
    answer = api_as("owner", "PATCH", path, data=b'{"notes": "n"}', content_type=content_type)
    assert (answer.status_code, answer.json["instance"]["notes"]) == (200, "n")


@pytest.mark.parametrize("content_type", malformed_input.CONTENT_TYPES)
def test_form_body_is_refused_with_any_content_type(api_as, cast, content_type):
    path = f"/api/instance/{cast.instance().id}"
    assert_refused(api_as("owner", "PATCH", path, data=b"notes=n", content_type=content_type), 400)


def test_malformed_field_values_never_cause_5xx(app, api_as, unlimited_rates):
    """Send each field of each body alone, with different values. No answer may be a 5xx."""
    requests = 0
    for caller, method, path, operation in list_operations(app):
        for name in find_fields(app, operation):
            for value in malformed_input.UNUSUAL_VALUES[requests % 4 :: 4]:  # every value is used with several fields
                answer = api_as(
                    caller, method, malformed_input.fill_path(path, UNKNOWN_ID), data=json.dumps({name: value})
                )
                assert answer.status_code < 500, (path, name, value, answer.text[:300])
                requests += 1
    assert requests > 500


def find_fields(app, operation):
    content = operation.get("requestBody", {}).get("content", {})
    for form in content.values():
        name = form["schema"].get("$ref", "").rpartition("/")[2]
        for content_type in ("USER", "ADMIN"):
            schemas = app.extensions["openapi"][content_type].spec.components.schemas
            yield from schemas.get(name, {}).get("properties", {})


def test_malformed_patch_values_of_instance_are_refused(app, api_as, cast, unlimited_rates):
    """The same for PATCH of an existing instance."""
    instance = cast.instance().id
    for caller, path in (("owner", f"/api/instance/{instance}"), ("admin", f"/api/v1/instance/{instance}")):
        operation = next(o for w, m, p, o in list_operations(app) if w == caller and m == "PATCH" and "instance/{" in p)
        for name in find_fields(app, operation):
            for value in malformed_input.UNUSUAL_VALUES[len(name) % 2 :: 2]:
                assert_refused(api_as(caller, "PATCH", path, data=json.dumps({name: value})), 200, 422)


JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.text(max_size=40),
    lambda inner: (
        strategies.lists(inner, max_size=4) | strategies.dictionaries(strategies.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=20,
)
KEYS = strategies.sampled_from(["name", "public_key", "plan_id", "location_id", "hostname", "protected", "enable_vnc"])


@PROPERTY_SETTINGS
@given(body=strategies.dictionaries(KEYS | strategies.text(max_size=12), JSON, max_size=6))
def test_any_json_object_is_answered(api_as, unlimited_rates, body):
    """Includes NaN, infinities and lone surrogates, which Python writes although JSON does not allow them."""
    text = json.dumps(body)
    for caller, method, path in WRITE_OPERATIONS:
        assert_refused(api_as(caller, method, path, data=text), 201, 200, 400, 404, 422)


@PROPERTY_SETTINGS
@given(body=strategies.binary(max_size=200))
def test_any_bytes_are_refused(api_as, unlimited_rates, body):
    for caller, method, path in WRITE_OPERATIONS:
        assert_refused(api_as(caller, method, path, data=body), 400, 422)


@PROPERTY_SETTINGS
@given(
    query=strategies.dictionaries(
        strategies.text(max_size=10) | strategies.sampled_from(["page", "per_page"]), strategies.text(max_size=20)
    )
)
def test_any_query_is_answered(api_as, unlimited_rates, query):
    for caller, path in (("owner", "/api/instances"), ("admin", "/api/v1/instances"), ("admin", "/api/v1/tasks")):
        assert_refused(api_as(caller, "GET", path, query_string=query), 200, 404, 422)


@PROPERTY_SETTINGS
@given(path=strategies.text(max_size=60))
def test_any_path_is_answered(api_as, unlimited_rates, path):
    for start in ("/api/", "/api/v1/", "/api/instance/", "/api/v1/instance/"):
        assert_refused(api_as("owner", "GET", start + path), 200, 401, 403, 404, 405, 422)


@PROPERTY_SETTINGS
@given(value=strategies.text(strategies.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=100))
def test_any_authorization_value_is_refused(api_as, unlimited_rates, value):
    for start in ("", "Bearer ", "bearer "):
        assert_refused(api_as("nobody", "GET", "/api/connect", headers={"Authorization": start + value}), 401)
        assert_refused(api_as("nobody", "GET", "/api/v1/auth", headers={"Authorization": start + value}), 401, 403)


def test_chunked_bodies_are_parsed_and_limited(api_as):
    """Chunked bodies have no Content-Length, so the size limit applies to the received bytes."""

    def send_chunked(caller, path, body):
        options = {"headers": {"Transfer-Encoding": "chunked"}, "environ_overrides": {"wsgi.input_terminated": True}}
        return api_as(caller, "POST", path, input_stream=BytesIO(body), **options)

    for caller, _, path in WRITE_OPERATIONS:
        assert_refused(send_chunked(caller, path, b"{}"), 422)
        assert_refused(send_chunked(caller, path, b'{"nosuch": '), 400)
        assert_refused(send_chunked(caller, path, b" " * (MAX_BODY_BYTES + 1)), 413)


def test_truncated_body_is_refused(api_as):
    for caller, _, path in WRITE_OPERATIONS:
        options = {"environ_overrides": {"CONTENT_LENGTH": "50", "wsgi.input_terminated": True}}
        assert_refused(api_as(caller, "POST", path, input_stream=BytesIO(b"{}"), **options), 400)
