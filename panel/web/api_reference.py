"""The API references: pages that are built from the committed OpenAPI documents, one for each family of operations.

What a page shows of a family is built once for each process, because the documents change with releases only.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from flask import abort, current_app, request, url_for
from markdown_it import MarkdownIt
from markupsafe import Markup

from panel.core.config import ROOT
from panel.web import api_examples
from panel.web.htmx import render
from panel.web.translation import lazy_gettext

TITLES = {"user": lazy_gettext("User API"), "admin": lazy_gettext("Admin API")}
MARKDOWN = MarkdownIt("js-default")
MAX_QUERY_WORDS = 10
MAX_RESULTS = 50
JSON_TYPE = "application/json"


@dataclass(frozen=True)
class Field:
    """One parameter, field of a body, or field of an object."""

    name: str
    type: str
    object: str | None
    """The object that the value consists of."""
    is_required: bool
    description: Markup
    facts: tuple[str, ...]
    """Bounds, choices and default, as short texts."""


@dataclass(frozen=True)
class Operation:
    id: str
    method: str
    path: str
    title: str
    family: str


@dataclass(frozen=True)
class OperationDetails:
    """What the reference shows of an operation."""

    operation: Operation
    description: Markup
    parameters: tuple[Field, ...]
    body: tuple[Field, ...]
    answers: tuple[tuple[str, str, str | None], ...]
    """(status, description or content type, object)"""
    errors: tuple[tuple[str, Markup], ...]
    """(status, description)"""
    examples: tuple[tuple[str, str], ...]
    """(name, code)"""


@dataclass(frozen=True)
class Family:
    name: str
    title: str
    operations: tuple[OperationDetails, ...]
    objects: tuple[tuple[str, tuple[Field, ...]], ...]
    """(name, fields) of what the operations return."""


def render_reference(template, surface, family, get_url):
    """Return the page of a family, the results of a search, or without either the introduction. `get_url` returns the
    address of a family's page, and without a name that of the introduction."""
    document = load_document(surface)
    if family is not None and family not in document.families:
        abort(404)
    return render(
        template,
        "reference",
        title=TITLES[surface],
        surface=surface,
        document=document,
        family=family and build_family(surface, family, current_app.extensions["config"].public_url),
        query=(query := request.args.get("q", "").strip()),
        results=search_operations(document, query) if query else None,
        page_url=get_url(),
        family_url=get_url,
        document_url=url_for(f"docs.{surface}_document"),
    )


class Document:
    """An OpenAPI document with its operations by family."""

    def __init__(self, surface):
        contents = json.loads((ROOT / "api" / "openapi" / f"{surface}.json").read_text())
        self.paths, self.components = contents["paths"], contents["components"]
        self.schemas = self.components["schemas"]
        self.introduction = render_markdown(contents["info"]["description"].replace("### ", "## "))
        self.families = {tag["name"]: tag["description"] for tag in contents["tags"]}
        self.operations = tuple(
            Operation(facts["operationId"], method.upper(), path, facts["summary"].removesuffix("."), facts["tags"][0])
            for path, operations in self.paths.items()
            for method, facts in operations.items()
        )
        self.operations_by_family = {
            family: [operation for operation in self.operations if operation.family == family]
            for family in self.families
        }


@lru_cache(maxsize=2)
def load_document(surface):
    return Document(surface)


def render_markdown(text):
    html = MARKDOWN.render(text or "")
    return Markup(html.replace("<table>", '<div class="table-responsive"><table class="table">')).replace(
        Markup("</table>"), Markup("</table></div>")
    )


def search_operations(document, query):
    """Return the operations that have all words of the query in their title, path or id."""
    words = query.lower().split()[:MAX_QUERY_WORDS]
    operations = (
        operation
        for operation in document.operations
        if all(
            word in f"{operation.title} {operation.method} {operation.path} {operation.id}".lower() for word in words
        )
    )
    return [operation for operation, _ in zip(operations, range(MAX_RESULTS), strict=False)]


@lru_cache(maxsize=128)
def build_family(surface, name, public_url):
    document = load_document(surface)
    details = tuple(
        describe_operation(document, operation, public_url) for operation in document.operations_by_family[name]
    )
    names = list_objects(document, details)
    objects = tuple((object_name, list_fields(document, document.schemas[object_name])) for object_name in names)
    return Family(name, document.families[name], details, objects)


def list_objects(document, details):
    """Return the names of the objects in answers and bodies, and of the objects within them."""
    fields = [field for operation in details for field in (*operation.parameters, *operation.body)]
    pending = [name for operation in details for _, _, name in operation.answers]
    pending += [field.object for field in fields]
    names: dict[str, None] = {}
    while pending:
        name = pending.pop(0)
        if name and name not in names:
            names[name] = None
            pending += [field.object for field in list_fields(document, document.schemas[name])]
    return sorted(names)


def describe_operation(document, operation, public_url):
    facts = document.paths[operation.path][operation.method.lower()]
    body_schema = facts.get("requestBody", {}).get("content", {}).get(JSON_TYPE, {}).get("schema")
    answers, errors = split_answers(document, facts["responses"])
    return OperationDetails(
        operation=operation,
        description=render_markdown(facts.get("description")),
        parameters=tuple(describe_parameter(parameter) for parameter in facts["parameters"]),
        body=list_fields(document, document.schemas[api_examples.get_name(body_schema)]) if body_schema else (),
        answers=answers,
        errors=errors,
        examples=build_examples(document, operation, facts, body_schema, public_url),
    )


def split_answers(document, responses):
    """Return the answers of success as (status, text, object) and the errors as (status, description)."""
    answers, errors = [], []
    for status, answer in responses.items():
        if "$ref" in answer:
            answer = document.components["responses"][api_examples.get_name(answer)]
        if status >= "4":
            errors.append((status, render_inline(answer["description"])))
            continue
        content = answer.get("content", {})
        object_type = find_type(content[JSON_TYPE]["schema"]) if JSON_TYPE in content else (", ".join(content), None)
        answers.append((status, *object_type))
    return tuple(answers), tuple(errors)


def render_inline(text):
    return Markup(MARKDOWN.renderInline(text or ""))


def list_fields(document, schema):
    required = schema.get("required", ())
    return tuple(describe_field(name, facts, name in required) for name, facts in schema.get("properties", {}).items())


def describe_parameter(parameter):
    facts = {**parameter["schema"], "description": parameter["description"]}
    field = describe_field(parameter["name"], facts, parameter.get("required", False))
    return field if parameter["in"] != "header" else Field(**{**vars(field), "facts": ("Header", *field.facts)})


def describe_field(name, facts, is_required):
    kind, object_name = find_type(facts)
    description = render_inline(facts.get("description"))
    return Field(name, kind, object_name, is_required, description, tuple(list_facts(facts)))


def find_type(schema):
    """Return the type of a value as text, and the name of the object that it consists of, or None."""
    if "$ref" in schema:
        return api_examples.get_name(schema), api_examples.get_name(schema)
    if choices := schema.get("anyOf") or schema.get("allOf"):
        types = [find_type(choice) for choice in choices]
        return " or ".join(kind for kind, _ in types), next((name for _, name in types if name), None)
    kinds = schema.get("type", "any")
    kind = kinds if isinstance(kinds, str) else " or ".join(kinds)
    if "items" in schema:
        inner, object_name = find_type(schema["items"])
        return kind.replace("array", f"array of {inner}"), object_name
    return f"{kind} ({schema['format']})" if "format" in schema else kind, None


def list_facts(facts):
    if "enum" in facts:
        yield "One of: " + ", ".join(json.dumps(value) for value in facts["enum"])
    if "default" in facts:
        yield f"Default: {json.dumps(facts['default'])}"
    if "minimum" in facts or "maximum" in facts:
        yield format_bounds(facts.get("minimum"), facts.get("maximum"), "")
    if "maxLength" in facts:
        yield format_bounds(facts.get("minLength") or None, facts["maxLength"], " characters")
    if "maxItems" in facts:
        yield format_bounds(facts.get("minItems") or None, facts["maxItems"], " items")


def format_bounds(minimum, maximum, unit):
    if minimum is None or maximum is None:
        return f"At least {minimum}{unit}" if maximum is None else f"At most {maximum}{unit}"
    return f"{minimum} to {maximum}{unit}"


def build_examples(document, operation, facts, body_schema, public_url):
    """Return (name, code) of calls and of the answer."""
    values = {parameter["name"]: find_parameter_value(parameter) for parameter in facts["parameters"]}
    path = re.sub(r"\{(\w+)\}", lambda match: str(values[match[1]]), operation.path)
    required = [parameter["name"] for parameter in facts["parameters"] if is_required_in_query(parameter)]
    query = "&".join(f"{name}={values[name]}" for name in required)
    address = f"{public_url}{path}{'?' if query else ''}{query}"
    body = api_examples.build_example(body_schema, document.schemas, is_request=True) if body_schema else None
    answer = next(answer for status, answer in facts["responses"].items() if status < "4")
    content = answer.get("content", {})
    examples = [
        ("curl", api_examples.format_curl(operation.method, address, body)),
        ("Python", api_examples.format_python(operation.method, address, body, is_json=JSON_TYPE in content)),
    ]
    if JSON_TYPE in content:
        value = api_examples.build_example(content[JSON_TYPE]["schema"], document.schemas)
        examples.append(("response", api_examples.format_json(value)))
    return tuple(examples)


def is_required_in_query(parameter):
    return parameter["in"] == "query" and parameter.get("required", False)


def find_parameter_value(parameter):
    if "example" in parameter:
        return parameter["example"]
    schema = parameter["schema"]
    return schema.get("examples", [None])[0] or api_examples.build_example(schema, {})
