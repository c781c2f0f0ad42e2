"""The rules of specification 7.3 and 8 for every field that they concern, found in the documents themselves."""

import json
import re

import pytest

from api.docs import openapi_document
from tests.support.malformed_input import fill_path
from tests.test_architecture import find_operations

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"
CALLER_BY_SURFACE = {"USER": "owner", "ADMIN": "admin"}
HOSTNAMES = re.compile(r"(.*_)?(hostname|fqdn|domain)")
WRONG_NAMES = [
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


def caller_of(who, path):
    return "billing" if "/billing/" in path else who


@pytest.fixture
def bodies(app, api_as, cast, unlimited):
    """Every operation with a body: how to send it one, and the fields of the body as the documents have them. Ids of
    instances are those of one that is there, so that no 404 comes first."""
    instance = cast.instance().id

    def found():
        for surface, who in CALLER_BY_SURFACE.items():
            schemas = openapi_document(app, surface)["components"]["schemas"]
            for method, path, operation in find_operations(app, surface):
                content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                fields = schemas.get(content.get("schema", {}).get("$ref", "").rpartition("/")[2], {})
                if fields:
                    caller = caller_of(who, path)
                    where = fill_path(path.replace("{instance_id}", instance), UNKNOWN_ID)
                    yield sender(caller, method, where), fields.get("properties", {})

    def sender(who, method, path):
        return lambda **body: (f"{method} {path}", api_as(who, method, path, data=json.dumps(body)))

    return list(found())


def is_field_named(said, name):
    """The answer refuses this field by its name."""
    what, answer = said
    assert answer.status_code == 422, (what, name, answer.status, answer.text)
    assert any(field == name or field.startswith(f"{name}.") for field in answer.json["errors"]), (what, answer.text)
    return answer


def test_booleans_are_strict(bodies):
    """ERR-07"""
    asked = 0
    for send, fields in bodies:
        for name, facts in fields.items():
            lenient = name == "cloudinit" and "instance_id" in fields  # clients of captured images send it as a text
            if "boolean" in facts.get("type", ()) and not facts.get("readOnly") and not lenient:
                for value in ("true", "false", 1, 0, "", "yes", [True], {}):
                    is_field_named(send(**{name: value}), name)
                    asked += 1
    assert asked > 50


def test_hostnames_are_checked_by_one_rule(bodies):
    """ERR-05, LIM-04 to LIM-07, LIM-09"""
    asked = 0
    for send, fields in bodies:
        for name in fields:
            if HOSTNAMES.fullmatch(name):
                unchanged = "leaves it unchanged" in fields[name]["description"]
                for value in WRONG_NAMES:
                    if value == "" and unchanged:
                        continue
                    answer = is_field_named(send(**{name: value}), name)
                    assert "must be a valid hostname" in answer.json["errors"][name][0]
                    asked += 1
    assert asked > 3 * len(WRONG_NAMES)


def test_a_word_that_is_none_of_the_allowed(bodies):
    """`vnc_keymap` and the like."""
    seen = set()
    for send, fields in bodies:
        for name, facts in fields.items():
            if "enum" in facts and not facts.get("readOnly"):
                is_field_named(send(**{name: "nosuch"}), name)
                seen.add(name)
    assert "vnc_keymap" in seen


def test_keys_that_are_not_known(bodies):
    """OP-20"""
    for send, _ in bodies:
        is_field_named(send(nosuch=1), "nosuch")


def test_filters_that_are_none(app, api_as, unlimited):
    """ERR-06, OP-15: never an empty list that looks like an answer, and never a 400."""
    seen = set()
    for surface, who in CALLER_BY_SURFACE.items():
        for method, path, operation in find_operations(app, surface):
            for parameter in operation.get("parameters", []):
                kind = parameter["schema"]
                if parameter["in"] != "query" or not (
                    "enum" in kind or kind.get("format") or kind.get("type") != "string"
                ):
                    continue
                for value in ("nosuch", "%00", "-", "9" * 30):
                    name = parameter["name"]
                    answer = api_as(caller_of(who, path), method, fill_path(f"{path}?{name}={value}", UNKNOWN_ID))
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
