"""The modules of the product and of the tests as syntax trees, and searches for calls and their arguments."""

import ast
import importlib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from jinja2 import Environment

import panel

ROOT = Path(panel.__file__).parent.parent
PACKAGES = ("panel", "api", "worker", "consoles")


@dataclass(frozen=True, eq=False)
class SourceModule:
    path: Path
    tree: ast.Module

    @cached_property
    def nodes(self):
        """Return all nodes of the tree."""
        return tuple(ast.walk(self.tree))

    @property
    def name(self):
        """Return the dotted name, without `__init__`."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def place(self, node):
        """Return `file:line` of a node of the tree."""
        return f"{self.path.relative_to(ROOT)}:{node.lineno}"


@cache
def product_modules():
    """Return all modules of the product except migrations, whose names do not change later."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    migrations = ROOT / "panel" / "migrations"
    return [SourceModule(path, ast.parse(path.read_text())) for path in paths if migrations not in path.parents]


@cache
def parsed_tests():
    """Return all modules of the tests."""
    return [SourceModule(path, ast.parse(path.read_text())) for path in sorted((ROOT / "tests").rglob("*.py"))]


@cache
def parsed_templates():
    """Return (path, syntax tree) of each template, of pages and of mails."""
    environment = Environment(extensions=["jinja2.ext.i18n"])
    environment.newstyle_gettext = True  # as in the application
    paths = [path for path in sorted((ROOT / "templates").rglob("*")) if path.suffix in (".html", ".txt")]
    return [(path, environment.parse(path.read_text())) for path in paths]


def called_name(call):
    """Return the last part of the callee's name: `enqueue` for `jobs.enqueue(…)`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)


@cache
def index_calls():
    """Return {name: [(module, call), …]} of all calls of the product."""
    calls = defaultdict(list)
    for module in product_modules():
        for node in module.nodes:
            if isinstance(node, ast.Call):
                calls[called_name(node)].append((module, node))
    return calls


def find_calls(name):
    """Return (module, call) for each call of something with this name."""
    return index_calls()[name]


def find_callee(module, call):
    """Return the object that a call of a module calls, or None when it is not a module-level name."""
    if isinstance(call.func, ast.Attribute):
        owner = getattr(call.func.value, "id", None)
        imported = owner and getattr(importlib.import_module(module.name), owner, None)
        return getattr(imported, call.func.attr, None)
    return getattr(importlib.import_module(module.name), called_name(call), None)


def find_strings(module, node):
    """Return the strings that an argument can be: literals, both sides of a condition, constants of the module."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value}
    if isinstance(node, ast.IfExp):
        return find_strings(module, node.body) | find_strings(module, node.orelse)
    if isinstance(node, ast.Name) and node.id.isupper():
        return {getattr(importlib.import_module(module.name), node.id)}
    return set()


def find_parameter(module, call, node):
    """Return (function's name, prefix, parameter's position, parameter's name) when the argument of a call is a
    parameter of the function around the call, with a literal prefix (`f"disk_{action}"`) or without; else None."""
    prefix = ""
    if isinstance(node, ast.JoinedStr) and len(node.values) == 2 and isinstance(node.values[0], ast.Constant):
        prefix, node = node.values[0].value, getattr(node.values[1], "value", None)
    for function in module.tree.body:
        if isinstance(function, ast.FunctionDef) and function.lineno <= call.lineno <= function.end_lineno:
            parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
            if isinstance(node, ast.Name) and node.id in parameters:
                return function.name, prefix, parameters.index(node.id), node.id
    return None


def get_argument(call, position, keyword=None):
    """Return the node of an argument that is given by position or by keyword, or None."""
    if position < len(call.args):
        return call.args[position]
    return next((item.value for item in call.keywords if keyword and item.arg == keyword), None)


def find_argument_strings(function, position=0, keyword=None, prefix=""):
    """Return {string: place of the call} of all that a function of the product gets for one parameter. Where a caller
    passes its own parameter on, that caller's callers are followed."""
    strings = {}
    for module, call in find_calls(function.__name__):
        node = get_argument(call, position, keyword)
        if node is None or find_callee(module, call) is not function:
            continue
        strings |= {prefix + text: module.place(call) for text in find_strings(module, node)}
        if passed_on := find_parameter(module, call, node):
            name, inner, outer_position, outer_keyword = passed_on
            caller = getattr(importlib.import_module(module.name), name)
            strings |= find_argument_strings(caller, outer_position, outer_keyword, prefix + inner)
    return strings
