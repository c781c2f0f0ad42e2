"""Parsing of requests: JSON bodies and query strings."""

import json

import orjson
from webargs.flaskparser import FlaskParser
from werkzeug.exceptions import RequestEntityTooLarge

from panel.core.errors import Invalid, Problem

MAX_BODY_DEPTH = 32
"""Maximum of nested objects and lists in a body."""

NO_NUL_MESSAGES = ["Must not contain control characters."]
"""PostgreSQL cannot store NUL in text, so such a body is refused before its fields are validated."""

MAX_QUOTED_LENGTH = 100
"""Maximum of characters of a client's input in an error message."""


class Parser(FlaskParser):
    """Reads JSON bodies with any content type. An empty body or `null` counts as an empty object."""

    DEFAULT_UNKNOWN_BY_LOCATION = {"json": None, "query": "exclude"}

    def load_json(self, req, schema):
        try:
            return parse_json_object(req)
        except Problem as problem:
            problem.status = getattr(schema, "malformed", problem.status)
            raise

    def handle_error(self, error, req, schema, *, error_status_code, error_headers):
        raise validation_error(dict(flatten_errors(error.messages[next(iter(error.messages))])))


def validation_error(errors):
    """Return the error for {field: messages}."""
    field, texts = next(iter(errors.items()))
    problem = Invalid(f"{field[:MAX_QUOTED_LENGTH]}: {texts[0]}")
    problem.fields = errors  # not as keywords: a client may send a field called `status` or `reason`
    return problem


def parse_json_object(req):
    """Return the body as a dict. Raises 400 when it is not a JSON object or has a duplicate key."""
    raw = req.get_data(parse_form_data=False)  # a form content type is parsed as JSON, too
    if len(raw) == req.max_content_length and req.content_length is None:
        raise RequestEntityTooLarge()  # the framework cuts chunked bodies at this length
    if req.content_length not in (None, len(raw)):
        raise build_bad_request("The body is shorter than its Content-Length.")
    text = raw.strip()
    if text in (b"", b"null"):
        return {}
    try:
        orjson.loads(text)  # strict about UTF-8, surrogates, numbers and depth
        body = json.loads(text, object_pairs_hook=reject_duplicate_keys)  # keeps large integers exact
    except (ValueError, RecursionError) as error:
        raise build_bad_request(f"The body is not valid JSON: {error}.") from None
    if not isinstance(body, dict):
        raise build_bad_request("The body must be a JSON object.")
    if text.count(b"{") + text.count(b"[") > MAX_BODY_DEPTH and exceeds_depth(body, MAX_BODY_DEPTH):
        raise build_bad_request(f"The body is nested more than {MAX_BODY_DEPTH} levels deep.")
    if b"\\u0000" in text and (fields := {name: NO_NUL_MESSAGES for name, value in body.items() if has_nul(value)}):
        raise validation_error(fields)
    return body


def build_bad_request(message):
    return Problem(message, status=400)


def reject_duplicate_keys(pairs):
    """Return the members of a JSON object as a dict. Raises 400 for a duplicate key, which is ambiguous."""
    members = dict(pairs)
    if len(members) < len(pairs):
        previous_names = set()
        name = next(name for name, _ in pairs if name in previous_names or previous_names.add(name))
        raise build_bad_request(f"The body contains the key {name[:MAX_QUOTED_LENGTH]} twice.")
    return members


def list_children(value):
    return (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()


def exceeds_depth(value, levels):
    if isinstance(value, dict | list) and levels == 0:
        return True
    return any(exceeds_depth(child, levels - 1) for child in list_children(value))


def has_nul(value):
    return "\0" in value if isinstance(value, str) else any(has_nul(child) for child in list_children(value))


def flatten_errors(messages, path=""):
    """Yield (dotted field name, list of messages) for nested error messages."""
    for field, value in messages.items():
        name = f"{path}.{field}" if path else str(field)
        if isinstance(value, dict):
            yield from flatten_errors(value, name)
        else:
            yield name, [str(text) for text in value]
