"""The rules of the architecture, as tests: what is easy to forget fails here."""

import ast
import json
import pkgutil
from pathlib import Path

import pytest
from openapi_spec_validator import validate

import api
import panel
from api.docs import described
from panel.auth import permissions
from worker import nodes, process
from worker.nodes.base import Node
from worker.task import KINDS

ROOT = Path(panel.__file__).parent.parent
SURFACES = ("USER", "ADMIN")


def operations(app, surface):
    for path, methods in described(app, surface)["paths"].items():
        for method, operation in methods.items():
            if "operationId" in operation:
                yield method.upper(), path, operation


@pytest.mark.parametrize("surface", SURFACES)
def test_every_operation_is_named_described_and_guarded(app, surface):
    found = list(operations(app, surface))
    assert len({operation["operationId"] for _, _, operation in found}) == len(found)
    for _, path, operation in found:
        assert operation["summary"].endswith("."), path
        assert operation["x-permission"] in permissions.EVERY, path
        assert operation["x-permission"] != permissions.PUBLIC, path


@pytest.mark.parametrize("surface", SURFACES)
def test_the_documents_are_valid_openapi(app, surface):
    document = json.loads(json.dumps(described(app, surface)))
    assert document["openapi"].startswith("3.1")
    validate(document)


@pytest.mark.parametrize("surface", SURFACES)
def test_every_field_is_described(app, surface):
    schemas = described(app, surface)["components"]["schemas"]
    bare = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, facts in schema.get("properties", {}).items()
        if not ({"description", "$ref", "allOf", "example"} & facts.keys()) and facts.get("type") != "array"
    ]
    assert bare == []


def test_every_api_route_is_documented(app):
    """Nothing is served under the API's prefixes that the documents do not show, but for their own addresses."""
    shown = {path.replace("{", "<").replace("}", ">") for s in SURFACES for _, path, _ in operations(app, s)}
    served = {rule.rule for rule in app.url_map.iter_rules() if rule.rule.startswith("/api")}
    assert served - shown == {"/api/docs/openapi.yaml", "/api/docs/user/openapi.yaml"}


def test_every_resource_is_registered():
    found = {module.name for module in pkgutil.iter_modules(api.__path__)} - {"kit", "errors", "docs"}
    assert found == {module.__name__.removeprefix("api.") for module in api.resources()}


def test_services_flush_and_never_commit():
    for path in (ROOT / "panel" / "services").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr
            assert called not in ("commit", "rollback"), path


def test_every_task_kind_that_is_enqueued_has_a_body():
    assert process.BODIES
    actions = {"deploy", "start", "stop", "shutdown", "restart", "poweroff", "destroy"}
    assert {f"instance_{action}" for action in actions} <= KINDS.keys()


@pytest.mark.parametrize("name", nodes.DRIVERS)
def test_every_driver_keeps_the_contract_complete(name):
    driver = nodes.driver(name)
    assert issubclass(driver, Node)
    assert driver.__abstractmethods__ == frozenset()
