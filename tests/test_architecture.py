"""The rules of the architecture, as tests: what is easy to forget fails here."""

import ast
import pkgutil
from pathlib import Path

import pytest

import api
import panel
from api.docs import openapi_document
from panel.auth import permissions
from worker import nodes
from worker.engine import main
from worker.engine.registry import TASK_TYPES
from worker.nodes.base import NodeDriver

ROOT = Path(panel.__file__).parent.parent
SURFACES = ("USER", "ADMIN")


def find_operations(app, surface):
    for path, methods in openapi_document(app, surface)["paths"].items():
        for method, operation in methods.items():
            if "operationId" in operation:
                yield method.upper(), path, operation


@pytest.mark.parametrize("surface", SURFACES)
def test_every_operation_is_named_described_and_guarded(app, surface):
    found = list(find_operations(app, surface))
    assert len({operation["operationId"] for _, _, operation in found}) == len(found)
    for _, path, operation in found:
        assert operation["summary"].endswith("."), path
        assert operation["x-permission"] in permissions.ALL, path
        assert operation["x-permission"] != permissions.PUBLIC, path


def test_every_resource_is_registered():
    shared = {"docs", "errors", "idempotency", "kit", "paging", "request_parsing"}
    found = {module.name for module in pkgutil.iter_modules(api.__path__)} - shared
    assert found == {module.__name__.removeprefix("api.") for module in api.import_resources()}


def test_services_flush_and_never_commit():
    for path in (ROOT / "panel" / "services").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr
            assert called not in ("commit", "rollback"), path


def test_every_task_kind_that_is_enqueued_has_a_body():
    assert main.TASK_MODULES
    actions = {"deploy", "start", "stop", "shutdown", "restart", "poweroff", "destroy"}
    assert {f"instance_{action}" for action in actions} <= TASK_TYPES.keys()


@pytest.mark.parametrize("name", nodes.DRIVERS)
def test_every_driver_keeps_the_contract_complete(name):
    driver = nodes.load_driver(name)
    assert issubclass(driver, NodeDriver)
    assert driver.__abstractmethods__ == frozenset()
