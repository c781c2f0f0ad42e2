"""Rules of all operations of a surface: ids in paths, repeated requests, strict values, methods."""

import pytest
from marshmallow import Schema, fields

import api
from panel.core.db import session
from panel.models import Hypervisor
from panel.schemas.base import Bool, In, Int, Number, PageQuery, QueryInt
from panel.schemas.credits import Amount
from panel.schemas.image_captures import Truth
from tests.support.operations import SURFACES, find_operations

STRICT_FIELDS = (Bool, Int, Number, QueryInt, Truth, Amount)


def iter_subclasses(schema):
    for subclass in schema.__subclasses__():
        yield subclass
        yield from iter_subclasses(subclass)


@pytest.mark.parametrize("surface", SURFACES)
def test_operations_have_their_own_description(app, surface):
    """Operations of operators have a paragraph of their own."""
    bare = []
    for _, _, operation in find_operations(app, surface):
        paragraphs = operation.get("description", "").split("\n\n")
        own = [
            text for text in paragraphs if not text.startswith(("Token scope:", "Team members need", "Without `page`"))
        ]
        if surface == "ADMIN" and not any(own):
            bare.append(operation["operationId"])
        assert operation.get("description"), operation["operationId"]
    assert bare == []


def test_admin_lists_document_pagination(app):
    checked_operations = 0
    for _, _, operation in find_operations(app, "ADMIN"):
        if any(parameter["name"] == "per_page" for parameter in operation["parameters"]):
            assert "`meta.last_page`" in operation["description"], operation["operationId"]
            checked_operations += 1
    assert checked_operations > 30


@pytest.mark.parametrize("surface", SURFACES)
def test_operations_with_idempotency_key_document_422(app, surface):
    """Operations with the header document status 422."""
    checked_operations = 0
    for method, path, operation in find_operations(app, surface):
        if any(parameter["name"] == "Idempotency-Key" for parameter in operation["parameters"]):
            assert "422" in operation["responses"], (method, path)
            checked_operations += 1
        else:
            assert method == "GET" or (surface == "USER" and method != "POST"), (method, path)
    assert checked_operations > 50


def test_admin_patch_with_repeated_key_is_executed_once(api_as, cast):
    """A PATCH with a repeated key gets the stored answer and changes nothing."""
    path = f"/api/v1/hypervisor/{cast.node.id}"
    send = lambda body, key: api_as("admin", "PATCH", path, json=body, headers={"Idempotency-Key": key})  # noqa: E731
    first = send({"maintenance": True}, "K")
    assert (first.status_code, first.json["data"]["maintenance"]) == (200, True)
    assert send({"maintenance": False}, "L").status_code == 200
    again = send({"maintenance": True}, "K")
    assert (again.status_code, again.headers["Idempotency-Replayed"], again.json) == (200, "true", first.json)
    assert session.get(Hypervisor, cast.node.id).maintenance is False
    assert send({"maintenance": True}, "K" * 256).status_code == 422
    assert send({"maintenance": False}, "K").status_code == 422, "another request with this key"


def test_admin_delete_with_repeated_key_is_executed_once(api_as, cast):
    status = api_as("admin", "POST", "/api/v1/user-scripts", json={}).status_code  # not a documented operation
    assert status == 405
    group = api_as("admin", "POST", "/api/v1/hypervisor/groups", json={"name": "away"}).json["data"]
    path = f"/api/v1/hypervisor/group/{group['id']}"
    for replayed in (None, "true"):
        answer = api_as("admin", "DELETE", path, headers={"Idempotency-Key": "D"})
        assert (answer.status_code, answer.headers.get("Idempotency-Replayed")) == (200, replayed)
    assert api_as("admin", "DELETE", path).status_code == 404


@pytest.mark.parametrize("caller", ["admin", "nobody"])
@pytest.mark.parametrize(
    "path", ["backup-schedules", "backup-stores", "nowhere", "1", "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7"]
)
def test_unknown_admin_route_is_not_an_unknown_id(api_as, caller, path):
    """An unknown route is not treated as an unknown id of a neighboring route."""
    answer = api_as(caller, "GET", f"/api/v1/hypervisor/{path}")
    assert (answer.status_code, answer.json["message"]) == (404, "There is nothing at this address.")
    assert answer.json["success"] is False


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/v1/hypervisor/groups", {"GET", "HEAD", "POST"}),
        ("/api/v1/hypervisors", {"GET", "HEAD", "POST"}),
        ("/api/instances", {"GET", "HEAD"}),
    ],
)
def test_options_lists_methods_of_path(api_as, path, methods):
    answer = api_as("admin", "OPTIONS", path)
    assert set(answer.headers["Allow"].split(", ")) - {"OPTIONS"} == methods


def test_number_and_boolean_fields_are_strict():
    """Text is not a number, a number is not a boolean, and digits are ASCII."""
    api.import_resources()
    lenient_fields = []
    for schema in iter_subclasses(Schema):
        if issubclass(schema, In | PageQuery) and schema.__module__.startswith(("api", "panel")):
            for name, field in schema().fields.items():
                value = field.inner if isinstance(field, fields.List) else field
                is_number = isinstance(value, fields.Number | fields.Boolean) and not isinstance(value, STRICT_FIELDS)
                is_query_flag = issubclass(schema, PageQuery) and isinstance(value, fields.Boolean)
                if is_number and not is_query_flag and not getattr(value, "strict", False):
                    lenient_fields.append(f"{schema.__name__}.{name}")
    assert lenient_fields == []


@pytest.mark.parametrize("value", ["٣", "3.0", " 3", "1_0", "+3", "", "0x3", "\uff11"])
def test_page_parameters_accept_ascii_digits_only(api_as, value):
    for caller, path in (("owner", "/api/instances"), ("admin", "/api/v1/instances")):
        for name in ("page", "per_page"):
            answer = api_as(caller, "GET", path, query_string={name: value})
            assert (answer.status_code, list(answer.json["errors"])) == (422, [name])


@pytest.mark.parametrize("amount", ["10", "12.50", True, None, [10]])
def test_credit_amounts_must_be_numbers(api_as, cast, amount):
    """BIL-06."""
    for caller, path, body in (
        ("admin", "/api/v1/cloud-service/credits", {"user_id": cast.owner.id}),
        ("billing", f"/api/v1/billing/user/{cast.owner.id}/credits", {}),
    ):
        answer = api_as(caller, "POST", path, json={**body, "amount": amount})
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["amount"])
        assert api_as(caller, "POST", path, json={**body, "amount": 10}).status_code == 200
        assert api_as(caller, "POST", path, json={**body, "amount": 12.5}).status_code == 200
        for wrong in (12.345, 1e-9, 1e308, -5, 0):
            assert api_as(caller, "POST", path, json={**body, "amount": wrong}).status_code == 422, wrong


@pytest.mark.parametrize("path", ["/API/v1/users", "/Api/instances", "/nowhere", "/instances/0199"])
def test_errors_outside_of_the_apis_are_json_on_request(api_as, path):
    """A client that accepts JSON gets `success: false` at every address."""
    answer = api_as("nobody", "GET", path, headers={"Accept": "application/json"})
    assert answer.status_code in (401, 404)
    assert answer.json["success"] is False
    assert answer.json["message"]


def test_rate_limit_reset_is_within_the_window(api_as):
    """`RateLimit-Reset` of a fresh window of 60 seconds is at most 60."""
    answer = api_as("owner", "GET", "/api/instances")
    assert 0 < int(answer.headers["RateLimit-Reset"]) <= 60
    assert answer.headers["RateLimit-Policy"].endswith("w=60")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/projects", {}),
        ("/api/api-tokens", {"scopes": ["instances:read"]}),
        ("/api/team/roles", {"permissions": ["instances.view"]}),
        ("/api/security-groups", {}),
        ("/api/ip-sets", {"ip_version": "ipv4"}),
        ("/api/ssh-key/generate", {"algorithm": "ed25519"}),
        ("/api/user-scripts", {"content": "#!/bin/sh", "type": "bash"}),
    ],
)
def test_names_require_visible_characters(api_as, path, body):
    """Names have visible characters and no control characters."""
    for name in ("   ", "a\u202eb"):
        answer = api_as("owner", "POST", path, json={**body, "name": name})
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["name"]), answer.text
