"""No module, class, function or module-level constant of the product has a name that docs/glossary.md retired."""

import ast
import re

import pytest

import panel.models  # noqa: F401  (declares the tables)
from panel.core.db import Model
from tests.support.product_code import ROOT, SourceModule, product_modules

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


def contains_word(name, retired):
    """Return whether the name contains the parts of the retired word side by side. Case is significant: `Seen` is a
    retired class, and `last_seen` is allowed."""
    parts, forbidden = split_name(name), split_name(retired)
    return any(parts[i : i + len(forbidden)] == forbidden for i in range(len(parts) - len(forbidden) + 1))


def find_names(module):
    """Yield (name, line) of the module, of its classes, functions and methods, and of its module-level constants."""
    yield module.name.rpartition(".")[2], 1
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
    for statement in module.tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in filter(None, targets):
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    yield node.id, node.lineno


def find_retired_names(modules):
    """Return `file:line: name` of each name that a retired word forbids, with what to write."""
    retired = retired_words()
    return [
        f"{module.path.relative_to(ROOT)}:{line}: {name} ({word} is retired: {retired[word]})"
        for module in modules
        for name, line in find_names(module)
        for word in retired
        if contains_word(name, word)
    ]


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
    "who",
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


def test_product_has_no_retired_names():
    assert find_retired_names(product_modules()) == []


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
    ],
)
def test_retired_name_is_found(file, source, name):
    (sentence,) = find_retired_names([SourceModule(ROOT / file, ast.parse(source))])
    assert f": {name} (" in sentence


@pytest.mark.parametrize(
    "source",
    [
        '"""An eye."""  # eye',
        "def watch(eye):\n    eyes = [eye]",
        "class Node:\n    eye = 3",
        "def last_seen(): ...",
        "MAX_CONSOLES = 4",
        "def heyed(): ...",
    ],
)
def test_prose_locals_and_longer_words_are_allowed(source):
    assert find_retired_names([SourceModule(ROOT / "api/nodes.py", ast.parse(source))]) == []


def test_current_words_are_not_retired():
    words = {name for row in read_glossary_rows() for name in re.findall(r"`(\w+)", row["word"])}
    assert words & retired_words().keys() == set()


def test_modules_of_glossary_exist():
    paths = {path for row in read_glossary_rows() for path in re.findall(r"`([^`]+)`", row["module"])}
    assert sorted(path for path in paths if not (ROOT / path).is_file()) == []
