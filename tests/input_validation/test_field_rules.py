"""The rules for all fields that the OpenAPI documents list."""

import json
import re

import pytest

from api.docs import build_openapi_document
from tests.support.cast import UNKNOWN_ID
from tests.support.malformed_input import fill_path
from tests.support.operations import find_operations

CALLER_BY_SURFACE = {"USER": "owner", "ADMIN": "admin"}
HOSTNAME_FIELD_PATTERN = re.compile(r"(.*_)?(hostname|fqdn|domain)")
INVALID_HOSTNAMES = [
    "-a",
    "a-",
    "a--b",
    "xn--bcher-kva",
    "a..b",
    ".a",
    "a" * 64,
    "host\n",
    "a b",
    "ä.example",
    "",
    "a_-.b",
    "x." * 127 + "x",
]


def find_caller(default_caller, path):
    return "billing" if "/billing/" in path else default_caller


@pytest.fixture
def body_senders(app, api_as, cast, unlimited_rates):
    """Return (function that sends a body, documented fields) of every operation with a body. Paths contain the id of an
    existing instance, so that the answer is not a 404."""
    instance = cast.instance().id

    def iter_operations():
        for surface, default_caller in CALLER_BY_SURFACE.items():
            schemas = build_openapi_document(app, surface)["components"]["schemas"]
            for method, path, operation in find_operations(app, surface):
                content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                fields = schemas.get(content.get("schema", {}).get("$ref", "").rpartition("/")[2], {})
                if fields:
                    caller = find_caller(default_caller, path)
                    where = fill_path(path.replace("{instance_id}", instance), UNKNOWN_ID)
                    yield make_sender(caller, method, where), fields.get("properties", {})

    def make_sender(caller, method, path):
        return lambda **body: (f"{method} {path}", api_as(caller, method, path, data=json.dumps(body)))

    return list(iter_operations())


def assert_field_error(response, name):
    """Check that the answer is a 422 with an error at this field, and return it."""
    request, answer = response
    assert answer.status_code == 422, (request, name, answer.status, answer.text)
    assert any(field == name or field.startswith(f"{name}.") for field in answer.json["errors"]), (request, answer.text)
    return answer


def test_boolean_fields_are_strict(body_senders):
    """ERR-07"""
    requests = 0
    for send, fields in body_senders:
        for name, facts in fields.items():
            lenient = name == "cloudinit" and "instance_id" in fields  # clients of captured images send it as text
            if "boolean" in facts.get("type", ()) and not facts.get("readOnly") and not lenient:
                for value in ("true", "false", 1, 0, "", "yes", [True], {}):
                    assert_field_error(send(**{name: value}), name)
                    requests += 1
    assert requests > 50


def test_hostname_fields_share_one_rule(body_senders):
    """ERR-05, LIM-04 to LIM-07, LIM-09"""
    requests = 0
    for send, fields in body_senders:
        for name in fields:
            if HOSTNAME_FIELD_PATTERN.fullmatch(name):
                unchanged = "leaves it unchanged" in fields[name]["description"]
                for value in INVALID_HOSTNAMES:
                    if value == "" and unchanged:
                        continue
                    answer = assert_field_error(send(**{name: value}), name)
                    assert "must be a valid hostname" in answer.json["errors"][name][0]
                    requests += 1
    assert requests > 3 * len(INVALID_HOSTNAMES)


def test_unknown_enum_values_are_refused(body_senders):
    seen = set()
    for send, fields in body_senders:
        for name, facts in fields.items():
            if "enum" in facts and not facts.get("readOnly"):
                assert_field_error(send(**{name: "nosuch"}), name)
                seen.add(name)
    assert "vnc_keymap" in seen


def test_unknown_keys_are_refused(body_senders):
    """OP-20"""
    for send, _ in body_senders:
        assert_field_error(send(nosuch=1), "nosuch")


def test_invalid_filters_are_refused(app, api_as, unlimited_rates):
    """ERR-06, OP-15: an invalid filter is neither ignored nor answered with 400."""
    seen = set()
    for surface, default_caller in CALLER_BY_SURFACE.items():
        for method, path, operation in find_operations(app, surface):
            for parameter in operation.get("parameters", []):
                kind = parameter["schema"]
                if parameter["in"] != "query" or not (
                    "enum" in kind or kind.get("format") or kind.get("type") != "string"
                ):
                    continue
                for value in ("nosuch", "%00", "-", "9" * 30):
                    name = parameter["name"]
                    answer = api_as(
                        find_caller(default_caller, path), method, fill_path(f"{path}?{name}={value}", UNKNOWN_ID)
                    )
                    assert answer.status_code in ((422,) if value == "%00" else (404, 422)), (
                        path,
                        name,
                        value,
                        answer.text,
                    )
                    if answer.status_code == 422 and value != "%00":
                        assert name in answer.json["errors"]
                        seen.add(name)
    assert {"purpose", "state", "page", "per_page"} <= seen
