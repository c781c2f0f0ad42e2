"""Every answer that any test of this suite gets from an operation is one that the OpenAPI documents show (DOC-11)."""

import json
from functools import cache

import jsonschema_rs
from werkzeug.exceptions import HTTPException

from api.docs import described

PREFIX = "#/components/responses/"


def check(app, asked, answer):
    """Fails when the operation's document lacks the status, or when the body has another shape."""
    if asked.method == "HEAD" or answer.status_code in (304, 500) or answer.mimetype != "application/json":
        return
    if "Content-Encoding" in answer.headers or "%00" in asked.query_string:
        return
    operation = find(app, asked)
    if operation:
        told = operation["responses"].get(str(answer.status_code))
        assert told, f"{answer.status_code} is not documented for {operation['operationId']}."
        surface = operation["surface"]
        content = (resolved(app, surface, told["$ref"]) if "$ref" in told else told)["content"]
        validator(app, surface, json.dumps(content["application/json"]["schema"])).validate(answer.json)


def find(app, asked):
    """The documented operation that was asked for, or None for everything else."""
    try:
        rule, _ = app.url_map.bind("").match(asked.path, method=asked.method, return_rule=True)
    except HTTPException:
        return None
    return operations(app).get((asked.method, rule.endpoint))


@cache
def document(app, surface):
    """Closed: a field that is not documented fails here, though clients must bear it."""
    found = json.loads(json.dumps(described(app, surface)))
    for schema in found["components"]["schemas"].values():
        schema.setdefault("additionalProperties", False)
    return found


@cache
def operations(app):
    """The documented operations by method and endpoint."""
    endpoints = {}
    for rule in app.url_map.iter_rules():
        for method in rule.methods:
            endpoints[method, rule.rule.replace("<", "{").replace(">", "}")] = rule.endpoint
    found = {}
    for surface in ("USER", "ADMIN"):
        for path, methods in document(app, surface)["paths"].items():
            for method, operation in methods.items():
                key = method.upper(), endpoints[method.upper(), path]
                found[key] = operation | {"surface": surface}
    return found


def resolved(app, surface, reference):
    return document(app, surface)["components"]["responses"][reference.removeprefix(PREFIX)]


@cache
def validator(app, surface, schema):
    return jsonschema_rs.validator_for(json.loads(schema) | {"components": document(app, surface)["components"]})
