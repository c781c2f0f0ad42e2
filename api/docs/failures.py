"""The error responses of operations in the OpenAPI documents."""

from api import errors
from panel.auth import permissions

EXAMPLE_ID_TEXT = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
FAILURE_NAMES = {
    400: "Malformed",
    401: "Unauthenticated",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    413: "TooLarge",
    422: "Invalid",
    429: "TooMany",
    503: "Unavailable",
}
FAILURE_MEANINGS = {
    400: "The body is not a JSON object.",
    401: "The token is unknown, expired or revoked.",
    403: "The token is not allowed to do this. The message names the missing permission.",
    404: "The resource does not exist or belongs to another account.",
    409: "Not possible in the current state. `reason` is a code for programs, where there is one.",
    413: "The body is larger than 4 MiB.",
    422: "The request is invalid. `errors` has the messages for each field.",
    429: "Too many requests. Wait for the number of seconds in `Retry-After`.",
    503: "The database or a hypervisor does not respond. Nothing was changed. Try again later.",
}
FAILURE_EXAMPLES = {
    400: {"message": "The body must be a JSON object."},
    401: {"message": "The token is missing, unknown or no longer valid."},
    403: {"message": "The token's scope does not permit this action: it needs instances:write."},
    404: {"message": "No such instance."},
    409: {"message": "Another task is in progress. Try again when it has finished.", "reason": "task_running"},
    413: {"message": "The data value transmitted exceeds the capacity limit."},
    422: {
        "message": "name: Must have at least 1 characters.",
        "errors": {"name": ["Must have at least 1 characters."]},
    },
    429: {"message": "Only 600 requests a minute are allowed here."},
    503: {"message": "The hypervisor does not answer. Try again later.", "reason": "hypervisor_unreachable"},
}
ADMIN_EXAMPLES = {401: {"message": "Unauthorized!"}, 403: {"message": "Unauthorized!"}}
"""Examples that differ in the operators' dialect (ENV-05, ENV-07)."""

FAILURE_HEADERS = {
    "Retry-After": {
        "description": "Seconds until the next request may succeed.",
        "schema": {"type": "integer", "examples": [12]},
    }
}


def add_failures(operation, surface, path, method):
    """Add the error responses of an operation, ordered by status. Responses that the route declares itself, such as
    `@user.doc(responses={503: "Unavailable"})`, stay."""
    answers = operation["responses"]
    answers.pop("default", None)
    invalid = answers.pop("422", None) is not None
    for status in list_possible_statuses(operation, path, method, invalid):
        answers.setdefault(str(status), {"$ref": f"#/components/responses/{FAILURE_NAMES[status]}"})
    operation["responses"] = dict(sorted(answers.items()))


def list_possible_statuses(operation, path, method, invalid):
    if operation["x-permission"] != permissions.PUBLIC:
        yield from (401, 403)
    yield 429
    if "requestBody" in operation:
        yield from (400, 413)
    if "{" in path:
        yield 404
    if method != "get":
        yield 409
    if invalid or any(parameter.get("name") == "Idempotency-Key" for parameter in operation["parameters"]):
        yield 422
    yield 503


def build_responses(surface):
    """Return the error responses of the document's components, by name."""
    schema = {"$ref": f"#/components/schemas/{error_schema(surface)}"}
    components = {}
    for status, name in FAILURE_NAMES.items():
        example = FAILURE_EXAMPLES[status] | (ADMIN_EXAMPLES.get(status, {}) if surface == "ADMIN" else {})
        content = {"schema": schema, "example": {"success": False, **example}}
        components[name] = {"description": FAILURE_MEANINGS[status], "content": {"application/json": content}}
    for name in ("TooMany", "Unavailable"):
        components[name]["headers"] = {"Retry-After": {"$ref": "#/components/headers/Retry-After"}}
    return components


def error_schema(surface):
    return (errors.AdminError if surface == "ADMIN" else errors.UserError).__name__
