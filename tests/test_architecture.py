"""The rules of the architecture, as tests: what is easy to forget fails here."""

import ast
import pkgutil
from pathlib import Path

import pytest

import api
import panel
from api.docs import described
from panel.auth import permissions
from worker import nodes
from worker.engine import main
from worker.engine.registry import KINDS
from worker.nodes.base import Node

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


def test_every_resource_is_registered():
    shared = {"bodies", "docs", "errors", "kit", "paging", "repeats"}
    found = {module.name for module in pkgutil.iter_modules(api.__path__)} - shared
    assert found == {module.__name__.removeprefix("api.") for module in api.resources()}


def test_services_flush_and_never_commit():
    for path in (ROOT / "panel" / "services").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr
            assert called not in ("commit", "rollback"), path


def test_every_task_kind_that_is_enqueued_has_a_body():
    assert main.BODIES
    actions = {"deploy", "start", "stop", "shutdown", "restart", "poweroff", "destroy"}
    assert {f"instance_{action}" for action in actions} <= KINDS.keys()


@pytest.mark.parametrize("name", nodes.DRIVERS)
def test_every_driver_keeps_the_contract_complete(name):
    driver = nodes.driver(name)
    assert issubclass(driver, Node)
    assert driver.__abstractmethods__ == frozenset()
