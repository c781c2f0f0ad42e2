"""No file and no identifier has a name that docs/glossary.md retired. Prose may have it."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

import panel.models  # noqa: F401  (declares the tables)
from panel.core.db import Model
from tests.support.product_code import ROOT, SourceModule, parsed_templates, parsed_tests, product_modules

GLOSSARY = ROOT / "docs" / "glossary.md"
COLUMNS = ["word", "meaning", "module", "retired"]


def read_glossary_rows():
    """Return the rows of all tables as dicts with the keys of COLUMNS."""
    lines = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row for row in rows if len(row) != len(COLUMNS)] == []
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows if row != COLUMNS]


def retired_words():
    """Return {retired word: the word to use instead} for what the glossary has in backticks."""
    return {name: row["word"] for row in read_glossary_rows() for name in re.findall(r"`([^`]+)`", row["retired"])}


def split_name(name):
    """Return the parts of a name: `close_eye` → close, eye; `EyeList` → Eye, List; `EYES` → eyes."""
    if name.isupper():
        name = name.lower()
    return [part for word in name.split("_") for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", word)]


@cache
def find_retired_word(name):
    """Return the first retired word whose parts the name contains side by side, or None. Case is significant: `Seen` is
    a retired class, and `last_seen` is allowed."""
    parts, forbidden = split_name(name), split_retired_words()
    for i, part in enumerate(parts):
        for word, word_parts in forbidden.get(part, ()):
            if parts[i : i + len(word_parts)] == word_parts:
                return word
    return None


@cache
def split_retired_words():
    """Return (retired word, its parts) by the first part."""
    words = {}
    for word in retired_words():
        parts = split_name(word)
        words.setdefault(parts[0], []).append((word, parts))
    return words


def find_names(module):
    """Yield (name, line) of the module and of all that it defines: classes, functions, parameters, variables, assigned
    attributes, aliases."""
    yield module.name.rpartition(".")[2], 1
    for node in module.nodes:
        kind = type(node)
        if kind is ast.Name:
            if type(node.ctx) is ast.Store:
                yield node.id, node.lineno
        elif kind is ast.Attribute:
            if type(node.ctx) is ast.Store:
                yield node.attr, node.lineno
        elif kind in (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif kind is ast.arg:
            yield node.arg, node.lineno
        elif kind is ast.alias and node.asname:
            yield node.asname, node.lineno


def find_template_names(tree):
    """Yield (name, line) of the macros, their parameters, and the variables of a template."""
    for node in tree.find_all((nodes.Macro, nodes.Name)):
        if isinstance(node, nodes.Macro) or node.ctx in ("store", "param"):
            yield node.name, node.lineno


def find_file_names(paths):
    """Yield (path, name) of each folder and file, without what follows the first dot."""
    for path in paths:
        for part in Path(path).parts:
            yield path, part.lstrip(".").partition(".")[0].replace("-", "_")


EXCEPTIONS = {
    # words of the wire, of forms and of settings
    ("panel/schemas/hypervisors.py", "promised"),
    ("panel/schemas/hypervisors.py", "strangers"),
    ("panel/schemas/unmanaged_machines.py", "obstacles"),
    ("panel/schemas/settings.py", "console_longest_hours"),
    # the alerts of the user interface library, not the mails
    ("templates/customer/instances/_alerts.html", "_alerts"),
    # names outside the product: /etc/shells, and `shells` of `python -m tests.bench.run`
    ("worker/images/tiny/overlay/etc/shells", "shells"),
    ("tests/bench/shells.py", "shells"),
}
"""(file, name) of names that have a retired word with another meaning."""

EXCEPTED_FOLDERS = {
    ("worker/nodes/", "medium"): "Until the drivers of micro VMs are merged (December 2026); then it is `media`.",
    ("tests/", "rates"): "The fixture `unlimited_rates`, which many tests under way take, and rates of traffic.",
    ("tests/support/skeleton/", "thing"): "The skeleton's resource, which `make new-resource` replaces.",
    ("tests/support/skeleton/", "things"): "The same.",
}
"""Reasons by (folder, retired word)."""

TEST_PHRASES = re.compile(r"_at_(most|least)_")
"""Phrases in the names of tests, which are sentences."""


def is_excepted(path, name, word):
    return (path, name) in EXCEPTIONS or any(path.startswith(f) and word == w for f, w in EXCEPTED_FOLDERS)


def describe_retired_names(names):
    """Return `file:line: name` for each (path, line, name) that a retired word forbids, with what to write."""
    retired = retired_words()
    return [
        f"{path}:{line}: {name} ({word} is retired: {retired[word]})"
        for path, line, name in names
        if (word := find_retired_word(name)) and not is_excepted(path, name, word)
    ]


def find_retired_names(modules):
    return describe_retired_names(
        (str(module.path.relative_to(ROOT)), line, name) for module in modules for name, line in find_names(module)
    )


def parse_modules(paths):
    return [SourceModule(ROOT / path, ast.parse((ROOT / path).read_text())) for path in paths]


def list_files(*patterns):
    """Return the files of the repository but for migrations, whose names do not change later."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    paths = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [path for path in paths if not path.startswith("panel/migrations/") and (ROOT / path).exists()]


RETIRED_COLUMNS = {
    "lost",
    "frozen",
    "power_at",
    "shown_host_key",
    "off",
    "used",
    "undo",
    "undo_left",
    "left_behind",
    "strangers",
    "caller",
    "spent_at",
    "problem",
    "close_because",
    "via",
    "sealed",
    "quick",
    "held_by",
    "held_until",
    "spread_at",
    "settled",
    "counted_until",
    "unbooked",
    "leads_to",
    "begun_at",
}
RETIRED_TABLES = {
    "rentals",
    "links",
    "devices",
    "repeats",
    "grants",
    "hypervisor_group_grants",
    "guest_reports",
    "traffic",
}


def test_tables_and_columns_have_no_retired_names():
    assert Model.metadata.tables.keys() & RETIRED_TABLES == set()
    for table in Model.metadata.tables.values():
        assert set(table.c.keys()) & RETIRED_COLUMNS == set()


def test_files_have_no_retired_names():
    paths = list_files()
    assert len(paths) > 1500
    assert describe_retired_names((path, 1, name) for path, name in find_file_names(paths)) == []


def test_product_has_no_retired_names():
    assert find_retired_names(product_modules()) == []


def test_scripts_of_static_files_and_samples_have_no_retired_names():
    modules = parse_modules(list_files("static/*.py", "templates/*.py"))
    assert len(modules) >= 2
    assert find_retired_names(modules) == []


def test_templates_have_no_retired_names():
    names = [(path, *pair) for path, tree in parsed_templates() for pair in find_template_names(tree)]
    assert len(names) > 500
    assert describe_retired_names((str(path.relative_to(ROOT)), line, name) for path, name, line in names) == []


def test_tests_have_no_retired_names():
    names = [(str(module.path.relative_to(ROOT)), *pair) for module in parsed_tests() for pair in find_names(module)]
    assert len(names) > 20000
    assert describe_retired_names((path, line, TEST_PHRASES.sub("_", name)) for path, name, line in names) == []


def test_exceptions_are_needed():
    """An exception names a file that is there, and a name that a retired word forbids."""
    assert [
        (path, name) for path, name in EXCEPTIONS if not (ROOT / path).is_file() or not find_retired_word(name)
    ] == []
    assert [
        folder for folder, word in EXCEPTED_FOLDERS if not (ROOT / folder).is_dir() or not find_retired_word(word)
    ] == []


@pytest.mark.parametrize(
    ("file", "source", "name"),
    [
        ("panel/services/strangers.py", "", "strangers"),
        ("worker/eye.py", "", "eye"),
        ("worker/eyes/__init__.py", "", "eyes"),
        ("api/nodes.py", "def close_eye(): ...", "close_eye"),
        ("api/nodes.py", "async def _close_eye(): ...", "_close_eye"),
        ("api/nodes.py", "class EyeList: ...", "EyeList"),
        ("api/nodes.py", "class Node:\n    def refuse_foreign(self): ...", "refuse_foreign"),
        ("consoles/nodes.py", "OPEN_EYES = 3", "OPEN_EYES"),
        ("consoles/nodes.py", "EYE: int = 3", "EYE"),
        ("consoles/nodes.py", "NODE, EYE = 3, 4", "EYE"),
        ("api/nodes.py", "def watch(eye): ...", "eye"),
        ("api/nodes.py", "def watch(node, *, last_eye=None): ...", "last_eye"),
        ("api/nodes.py", "def watch():\n    eyes = []", "eyes"),
        ("api/nodes.py", "for eye in []: ...", "eye"),
        ("api/nodes.py", "class Node:\n    eye = 3", "eye"),
        ("api/nodes.py", "def watch(node):\n    node.eye = 3", "eye"),
        ("api/nodes.py", "import watchers as eyes", "eyes"),
    ],
)
def test_retired_name_is_found(file, source, name):
    (sentence,) = find_retired_names([SourceModule(ROOT / file, ast.parse(source))])
    assert f": {name} (" in sentence


@pytest.mark.parametrize(
    "source",
    [
        '"""An eye."""  # eye',
        "def watch(node):\n    return node.eye, node['eye'], watch(eye=3)",
        "def last_seen(): ...",
        "MAX_CONSOLES = 4",
        "def heyed(): ...",
    ],
)
def test_prose_uses_and_longer_words_are_allowed(source):
    assert find_retired_names([SourceModule(ROOT / "api/nodes.py", ast.parse(source))]) == []


@pytest.mark.parametrize(
    "source",
    ["{% macro eye(node) %}{% endmacro %}", "{% set eye = 3 %}", "{% for eye in nodes %}{{ eye }}{% endfor %}"],
)
def test_retired_name_in_template_is_found(source):
    assert "eye" in [name for name, _ in find_template_names(Environment().parse(source))]


@pytest.mark.parametrize(
    ("path", "is_found"),
    [
        ("templates/customer/_eye.html", True),
        ("static/eyes/open.js", True),
        ("worker/guest/close-eye.sh", True),
        ("tests/nodes/test_eye.py", True),
        ("templates/customer/_last_seen.html", False),
    ],
)
def test_retired_file_name_is_found(path, is_found):
    assert any(find_retired_word(name) for _, name in find_file_names([path])) is is_found


def test_current_words_are_not_retired():
    words = {name for row in read_glossary_rows() for name in re.findall(r"`(\w+)", row["word"])}
    assert words & retired_words().keys() == set()


def test_modules_of_glossary_exist():
    paths = {path for row in read_glossary_rows() for path in re.findall(r"`([^`]+)`", row["module"])}
    assert sorted(path for path in paths if not (ROOT / path).is_file()) == []
