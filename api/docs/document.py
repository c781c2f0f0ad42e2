"""The OpenAPI documents: what the route rows say, with what holds for every operation added."""

from copy import deepcopy
from functools import cache
from pathlib import Path

import panel
from api.docs import failures
from panel.auth import permissions
from panel.schemas.base import In

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
ENVELOPE = {
    "description": "The version of the envelope that this answer wears.",
    "schema": {"type": "string", "examples": ["v1"]},
}
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token, as it was shown once when it was made.",
}


def openapi_document(app, surface):
    """The document as this installation serves it at this moment: its own version and its own public address, never
    what a client put into its Host header."""
    document = build_document(app, surface)
    return {
        "openapi": document["openapi"],
        "info": {**document["info"], "version": panel.INTERFACE_VERSION},
        "servers": [{"url": app.extensions["config"].public_url, "description": "This installation"}],
        **{part: document[part] for part in ("security", "tags", "paths", "components")},
    }


@cache
def build_document(app, surface):
    """All of the document that stays while the panel runs."""
    api = app.extensions["openapi"][surface]
    document = deepcopy(api.spec.to_dict())
    document["info"]["description"] = introduction(surface)
    document["tags"] = [{**tag, "name": tag_name(*tag["name"].split("_", 1))} for tag in document["tags"]]
    for path, operations in document["paths"].items():
        shared = operations.pop("parameters", [])
        for method, operation in operations.items():
            operation["parameters"] = [describe_parameter(each) for each in shared + operation.get("parameters", [])]
            if key := operation.pop("x-idempotency-key", None):
                operation["parameters"].append(key)
            operation["tags"] = [tag_name(*operation["operationId"].split(".")[:2])]
            add_requirements(operation)
            if surface == "ADMIN":
                add_paging(operation)
            failures.add(operation, surface, path, method)
            if surface == "ADMIN":
                add_envelope_header(operation)
    components = document["components"]
    components["responses"] = failures.responses(surface)
    components["headers"] = {"X-Api-Envelope": ENVELOPE, **failures.FAILURE_HEADERS}
    components["securitySchemes"] = {"bearer": BEARER}
    for schema, name in list_schemas(api):
        finalize_schema(schema, components["schemas"][name])
    components["schemas"].pop("PaginationMetadata", None)  # flask-smorest's own, which nothing here uses
    return document


def introduction(surface):
    text = (Path(__file__).parent / f"{surface.lower()}.md").read_text()
    return text.replace("FAMILIES", ", ".join(f"`{family}`" for family in permissions.FAMILIES))


def tag_name(surface, resource):
    """Under what an operation stands. Billing systems have users and instances too."""
    return f"billing_{resource}" if surface == "billing" else resource


PATH_PARTS = {
    "slot": ("The optical drive: `primary` or `secondary`.", "primary"),
    "device": ("The optical drive: `primary` or `secondary`.", "primary"),
    "domain_name": ("The machine's name on the hypervisor.", "old-web"),
    "app_slug": ("Which app of the catalog.", "nginx"),
    "app_action": ("`start`, `stop`, `restart` or `remove`.", "restart"),
    "switch": ("`enable` or `disable`.", "enable"),
    "action": ("`mount` or `insert`, `unmount` or `eject`.", "mount"),
}
"""Parts of paths that are words."""


def describe_parameter(parameter):
    """A parameter with a description. An id in a path says by its name whose it is."""
    name = parameter["name"]
    if parameter["in"] == "path" and name in PATH_PARTS:
        return {"description": PATH_PARTS[name][0], "example": PATH_PARTS[name][1], **parameter}
    if parameter["in"] != "path" or not name.endswith("_id"):
        return parameter
    thing = name.removesuffix("_id").replace("_", " ")
    return {"description": f"Id of the {thing}.", "example": EXAMPLE_ID, **parameter}


def add_requirements(operation):
    needs = []
    if scope := operation.get("x-scope"):
        needs.append(f"Token scope: `{scope}`.")
    if operation["x-permission"] in permissions.MEMBER:
        needs.append(f"Team members need `{operation['x-permission']}`.")
    operation["description"] = "\n\n".join(filter(None, (operation.get("description"), " ".join(needs))))
    if not operation["description"]:
        del operation["description"]


def add_paging(operation):
    """Say of a list of the operators' API how it is read as a whole: programs know other places for it."""
    sizes = [each["schema"] for each in operation["parameters"] if each["name"] == "per_page"]
    if sizes:
        default = "100 rows" if "default" in sizes[0] else "all rows"
        paging = (
            f"Without `page` and `per_page` the answer has the first page, {default}; `per_page` is 1 to 100. "
            "`meta.total` and `meta.last_page` say how many rows and pages there are: ask for `page=2` and so on."
        )
        operation["description"] = "\n\n".join(filter(None, (operation.get("description"), paging)))


def add_envelope_header(operation):
    for answer in operation["responses"].values():
        if "$ref" not in answer:
            answer["headers"] = {"X-Api-Envelope": {"$ref": "#/components/headers/X-Api-Envelope"}}


def list_schemas(api):
    """The classes of the document's schemas with their names in it."""
    converter = api.ma_plugin.converter
    return [(key[0], name) for key, name in converter.refs.items() if name in api.spec.components.schemas]


def finalize_schema(schema, described):
    """What clients may rely on. In what they send, unknown fields are refused. In what they get, every listed field is
    there but those that say otherwise, and fields that are added later must not disturb them."""
    if not issubclass(schema, In):
        described.pop("additionalProperties", None)
        sometimes = getattr(schema, "sometimes", ())
        described["required"] = [name for name in described["properties"] if name not in sometimes]
