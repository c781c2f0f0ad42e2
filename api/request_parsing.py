"""What clients send, as the schemas get it: bodies in JSON and query strings."""

import json

import orjson
from webargs.flaskparser import FlaskParser
from werkzeug.exceptions import RequestEntityTooLarge

from panel.core.errors import Invalid, Problem

MAX_BODY_DEPTH = 32
"""How many levels of objects and lists a body may have."""

NO_NUL_MESSAGES = ["Must not contain control characters."]
"""What databases cannot keep is refused before any field is looked at."""

MAX_QUOTED_LENGTH = 100
"""How many characters of what a client sent are repeated to it."""


class Parser(FlaskParser):
    """Reads bodies as clients send them: any content type, nothing at all or `null` for an empty object."""

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
    """The refusal for a map from fields to what is wrong with them."""
    field, texts = next(iter(errors.items()))
    problem = Invalid(f"{field[:MAX_QUOTED_LENGTH]}: {texts[0]}")
    problem.fields = errors  # not as keywords: a client may send a field called `status` or `reason`
    return problem


def parse_json_object(req):
    """The body as a dictionary. One that is no JSON object, or could be read in two ways, is a 400 that says why."""
    sent = req.get_data(parse_form_data=False)  # forms too are read as what they should have been
    if len(sent) == req.max_content_length and req.content_length is None:
        raise RequestEntityTooLarge()  # of what comes in pieces the framework reads so much and forgets the rest
    if req.content_length not in (None, len(sent)):
        raise bad_request("The body ended before the length that was announced.")
    text = sent.strip()
    if text in (b"", b"null"):
        return {}
    try:
        orjson.loads(text)  # knows what JSON is: strict about UTF-8, surrogates, numbers and depth
        body = json.loads(text, object_pairs_hook=reject_duplicate_keys)  # keeps large numbers whole
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is not valid JSON: {error}.") from None
    if not isinstance(body, dict):
        raise bad_request("The body must be a JSON object.")
    if text.count(b"{") + text.count(b"[") > MAX_BODY_DEPTH and exceeds_depth(body, MAX_BODY_DEPTH):
        raise bad_request(f"The body is nested more than {MAX_BODY_DEPTH} levels deep.")
    if b"\\u0000" in text and (found := {name: NO_NUL_MESSAGES for name, value in body.items() if has_nul(value)}):
        raise validation_error(found)
    return body


def bad_request(message):
    return Problem(message, status=400)


def reject_duplicate_keys(pairs):
    """The members of a JSON object. Two with one name would leave open which of them is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise bad_request(f"The body names {name[:MAX_QUOTED_LENGTH]} twice.")
    return found


def children(value):
    return (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()


def exceeds_depth(value, levels):
    if isinstance(value, dict | list) and levels == 0:
        return True
    return any(exceeds_depth(each, levels - 1) for each in children(value))


def has_nul(value):
    return "\0" in value if isinstance(value, str) else any(has_nul(each) for each in children(value))


def flatten_errors(messages, path=""):
    """Nested error messages as pairs of a dotted field name and its list of messages."""
    for field, found in messages.items():
        name = f"{path}.{field}" if path else str(field)
        if isinstance(found, dict):
            yield from flatten_errors(found, name)
        else:
            yield name, [str(text) for text in found]
