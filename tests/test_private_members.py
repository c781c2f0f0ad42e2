"""The code uses only public members of libraries, because private ones may change in any release.

Exceptions are in consoles/compat.py, whose own tests fail when an upgrade changes them.
"""

import ast
from functools import cache
from importlib import import_module

import pytest

from tests.support.product_code import ROOT

OWN_PACKAGES = ("panel", "api", "consoles", "worker", "tests")
COMPAT_MODULE = "consoles/compat.py"
DOCUMENTED_NAMES = {
    "_Element": "lxml: the only name of the class",
    "_asdict": "named tuples",
    "_deserialize": "marshmallow: the method that custom fields define",
    "_exit": "os",
    "_fields": "named tuples and SQLAlchemy's rows",
    "_get_current_object": "Flask: the object behind a proxy",
    "_make_doc_response_schema": 'flask-smorest: "Override this"',
    "_mapping": "SQLAlchemy's rows",
    "_prepare_response_content": 'flask-smorest: "Override this"',
    "_serialize": "marshmallow: the method that custom fields define",
}
"""Names with an underscore that their libraries document as public."""


def is_private(name):
    return name.startswith("_") and name.strip("_") and not name.endswith("__") and name not in DOCUMENTED_NAMES


@cache
def list_sources():
    """Return (path, syntax tree) of each module of this repository, except COMPAT_MODULE."""
    paths = [path for package in OWN_PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = [str(path.relative_to(ROOT)) for path in paths]
    return [(name, ast.parse((ROOT / name).read_text())) for name in names if name != COMPAT_MODULE]


def list_definitions(tree):
    """Yield the names of functions and class attributes that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (part.target.id for part in node.body if isinstance(part, ast.AnnAssign))


def list_private_uses(tree, own_names):
    """Yield (line, name) of each private member that is used and not defined in this repository."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [part for alias in node.names for part in alias.name.split(".")]
            names += (getattr(node, "module", None) or "").split(".")
        else:
            continue
        yield from ((node.lineno, name) for name in names if is_private(name) and name not in own_names)


def list_private_overrides(path, tree):
    """Yield the private methods of libraries that the module's classes override."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names = {part.name for part in node.body if isinstance(part, ast.FunctionDef) and is_private(part.name)}
            if names:
                kind = getattr(
                    import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")), node.name
                )
                for base in kind.__mro__[1:]:
                    if not base.__module__.startswith(OWN_PACKAGES):
                        yield from names & vars(base).keys()


def test_private_members_of_libraries_are_not_used():
    own_names = {name for _, tree in list_sources() for name in list_definitions(tree)}
    uses = [
        f"{path}:{line} {name}" for path, tree in list_sources() for line, name in list_private_uses(tree, own_names)
    ]
    assert uses == []


def test_private_methods_of_libraries_are_not_overridden():
    assert [f"{path} {name}" for path, tree in list_sources() for name in list_private_overrides(path, tree)] == []


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("response._buffer", [(1, "_buffer")]),
        ("from library import _parse", [(1, "_parse")]),
        ("import library._core", [(1, "_core")]),
        ("from library._core import parse", [(1, "_core")]),
        ("from __future__ import annotations", []),
        ("row._mapping", []),
        ("node._own", []),
        ("node.__dict__", []),
    ],
)
def test_private_uses_are_found(source, uses):
    assert list(list_private_uses(ast.parse(source), {"_own"})) == uses


def test_private_overrides_are_found():
    """The class in consoles/compat.py overrides private methods of websockify."""
    tree = ast.parse((ROOT / COMPAT_MODULE).read_text())
    assert sorted(list_private_overrides(COMPAT_MODULE, tree)) == ["_close", "_decode_hybi", "_recv", "_unmask"]
