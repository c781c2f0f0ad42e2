"""The OpenAPI documents: the declarations of the routes plus what all operations share."""

from copy import deepcopy
from functools import cache
from pathlib import Path

import panel
from api.docs import failures
from panel.auth import permissions
from panel.schemas.base import In

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
ENVELOPE_SCHEMA = {
    "description": "Version of the response envelope.",
    "schema": {"type": "string", "examples": ["v1"]},
}
BEARER_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "API token. Its value is only shown when it is created.",
}


def build_openapi_document(app, surface):
    """Return the document with this installation's version and public address. The Host header of the request is not
    used, because clients control it."""
    document = build_document(app, surface)
    return {
        "openapi": document["openapi"],
        "info": {**document["info"], "version": panel.INTERFACE_VERSION},
        "servers": [{"url": app.extensions["config"].public_url, "description": "This installation"}],
        **{part: document[part] for part in ("security", "tags", "paths", "components")},
    }


@cache
def build_document(app, surface):
    """Return the part of the document that is constant while the panel runs."""
    api = app.extensions["openapi"][surface]
    api.describe_operations()
    document = deepcopy(api.spec.to_dict())
    document["info"]["description"] = build_introduction(surface)
    document["tags"] = [{**tag, "name": tag_name(*tag["name"].split("_", 1))} for tag in document["tags"]]
    for path, operations in document["paths"].items():
        shared = operations.pop("parameters", [])
        for method, operation in operations.items():
            operation["parameters"] = [
                describe_parameter(parameter) for parameter in shared + operation.get("parameters", [])
            ]
            if key := operation.pop("x-idempotency-key", None):
                operation["parameters"].append(key)
            operation["tags"] = [tag_name(*operation["operationId"].split(".")[:2])]
            add_requirements(operation)
            if surface == "ADMIN":
                add_paging(operation)
            failures.add_failures(operation, surface, path, method)
            if surface == "ADMIN":
                add_envelope_header(operation)
    components = document["components"]
    components["responses"] = failures.build_responses(surface)
    components["headers"] = {"X-Api-Envelope": ENVELOPE_SCHEMA, **failures.FAILURE_HEADERS}
    components["securitySchemes"] = {"bearer": BEARER_SCHEME}
    for schema, name in list_schemas(api):
        finalize_schema(schema, components["schemas"][name])
    components["schemas"].pop("PaginationMetadata", None)  # flask-smorest's own, which nothing here uses
    return document


def build_introduction(surface):
    text = (Path(__file__).parent / f"{surface.lower()}.md").read_text()
    return text.replace("FAMILIES", ", ".join(f"`{family}`" for family in permissions.PERMISSION_FAMILIES))


def tag_name(surface, resource):
    """Return an operation's tag. Billing systems have users and instances too, so theirs get a prefix."""
    return f"billing_{resource}" if surface == "billing" else resource


PATH_PARTS = {
    "slot": ("The optical drive: `primary` or `secondary`.", "primary"),
    "device": ("The optical drive: `primary` or `secondary`.", "primary"),
    "domain_name": ("Name of the VM on the hypervisor.", "old-web"),
    "app_slug": ("App of the catalog.", "nginx"),
    "app_action": ("`start`, `stop`, `restart` or `remove`.", "restart"),
    "switch": ("`enable` or `disable`.", "enable"),
    "resource_type": ("Type of the resource: `instance`.", "instance"),
    "role_name": ("Name of the role.", "support"),
    "command": ("Name of the job.", "worker.engine.purge.purge_expired"),
    "action": ("`mount` or `insert`, `unmount` or `eject`.", "mount"),
}
"""{path parameter that is not an id: (description, example)}"""


def describe_parameter(parameter):
    """Return the parameter with a description. That of an id is derived from its name."""
    name = parameter["name"]
    if parameter["in"] == "path" and name in PATH_PARTS:
        return {"description": PATH_PARTS[name][0], "example": PATH_PARTS[name][1], **parameter}
    if parameter["in"] != "path" or not name.endswith("_id"):
        return parameter
    resource = name.removesuffix("_id").replace("_", " ")
    resource = {"iso": "ISO", "machine": "unmanaged VM"}.get(resource, resource)
    return {"description": f"Id of the {resource}.", "example": EXAMPLE_ID, **parameter}


def add_requirements(operation):
    requirements = []
    if scope := operation.get("x-scope"):
        requirements.append(f"Token scope: `{scope}`.")
    if operation["x-permission"] in permissions.MEMBER_PERMISSIONS:
        requirements.append(f"Team members need `{operation['x-permission']}`.")
    operation["description"] = "\n\n".join(filter(None, (operation.get("description"), " ".join(requirements))))
    if not operation["description"]:
        del operation["description"]


def add_paging(operation):
    """Add to the description of an operators' list how to read all its pages."""
    sizes = [parameter["schema"] for parameter in operation["parameters"] if parameter["name"] == "per_page"]
    if sizes:
        default = "100 rows" if "default" in sizes[0] else "all rows"
        paging = (
            f"Without `page` and `per_page` the response contains the first page ({default}). `per_page` is 1 to 100. "
            "Request `page=2` and so on until `meta.last_page`; `meta.total` is the number of rows."
        )
        operation["description"] = "\n\n".join(filter(None, (operation.get("description"), paging)))


def add_envelope_header(operation):
    for answer in operation["responses"].values():
        if "$ref" not in answer:
            answer["headers"] = {"X-Api-Envelope": {"$ref": "#/components/headers/X-Api-Envelope"}}


def list_schemas(api):
    """Return (schema class, its name in the document) pairs."""
    converter = api.ma_plugin.converter
    return [(key[0], name) for key, name in converter.refs.items() if name in api.spec.components.schemas]


def finalize_schema(schema, described):
    """Complete the description of a schema. Requests refuse unknown fields. Responses have every listed field but
    those in `sometimes`, and clients must accept fields that are added later."""
    if not issubclass(schema, In):
        described.pop("additionalProperties", None)
        sometimes = getattr(schema, "sometimes", ())
        described["required"] = [name for name in described["properties"] if name not in sometimes]
