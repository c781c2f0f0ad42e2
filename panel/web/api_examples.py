"""Examples of calls of the API, in curl and Python, and values that fit a schema of an OpenAPI document."""

import json
import shlex
import textwrap

MAX_EXAMPLE_DEPTH = 6
"""Levels of objects in an example."""


def build_example(schema, schemas, *, is_request=False, depth=0):
    """Return a value that fits the schema. Of a request's fields only the required ones are filled in, or, where none
    is, the first two."""
    if "$ref" in schema:
        return build_example(schemas[get_name(schema)], schemas, is_request=is_request, depth=depth)
    if "example" in schema:
        return schema["example"]
    if "enum" in schema:
        return schema["enum"][0]
    if choices := schema.get("anyOf") or schema.get("allOf"):
        return build_example(choices[0], schemas, is_request=is_request, depth=depth)
    kind = schema.get("type")
    if kind == "array" and "items" in schema:
        value = build_example(schema["items"], schemas, is_request=is_request, depth=depth)
        return [] if value is None else [value]
    if "properties" in schema:
        if depth >= MAX_EXAMPLE_DEPTH:
            return {}
        fields = choose_fields(schema) if is_request else schema["properties"]
        return {
            name: build_example(schema["properties"][name], schemas, is_request=is_request, depth=depth + 1)
            for name in fields
        }
    return {"object": {}, "array": [], "string": "", "integer": 1, "number": 1, "boolean": True}.get(kind)


def choose_fields(schema):
    return schema.get("required") or list(schema["properties"])[: max(2, schema.get("minProperties", 0))]


def get_name(schema):
    """Return the name of the schema that `$ref` names."""
    return schema["$ref"].rpartition("/")[2]


def format_json(value):
    return json.dumps(value, indent=2, ensure_ascii=False)


def format_curl(method, address, body=None):
    """Return the call as a command for a shell. The token is a variable of the shell."""
    parts = [f'curl{"" if method == "GET" else f" -X {method}"} "{address}"', '-H "Authorization: Bearer $TOKEN"']
    if body is not None:
        parts += ['-H "Content-Type: application/json"', f"-d {shlex.quote(format_json(body))}"]
    return " \\\n  ".join(parts)


def format_python(method, address, body=None, *, is_json=True):
    """Return the call as a program that uses the library requests."""
    lines = [f'"{address}",', 'headers={"Authorization": f"Bearer {os.environ[\'TOKEN\']}"},']
    if body is not None:
        lines.append(f"json={format_literal(body)},")
    arguments = textwrap.indent("\n".join(lines), "    ")
    return (
        f"import os\n\nimport requests\n\nresponse = requests.{method.lower()}(\n{arguments}\n)\n"
        f"response.raise_for_status()\nprint(response.{'json()' if is_json else 'text'})"
    )


def format_literal(value):
    """Return the value as a literal of Python, laid out like JSON."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, dict | list):
        return repr(value)
    items = (
        [f"{json.dumps(name)}: {format_literal(item)}" for name, item in value.items()]
        if isinstance(value, dict)
        else [format_literal(item) for item in value]
    )
    start, end = "{}" if isinstance(value, dict) else "[]"
    lines = textwrap.indent(",\n".join(items), "    ")
    return f"{start}\n{lines},\n{end}"
