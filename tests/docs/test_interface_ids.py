"""docs/interface.md explains every interface id that the code cites, and the tests cite nothing else."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CITING_FOLDERS = ("tests", "panel", "api", "worker", "consoles")
ID_PREFIXES = "IDT ENV BIL INS FRG RSC ISO IMG SSH CON WHK DLV MET BAK POL DST BLK REC HVG SUB VPC LBA K8S ASG MVM SBX"
ID_PREFIXES += " DOC MCP IAC OTH ERR LIM VER NS OP TX"
ID_PATTERN = re.compile(rf"\b(?:{ID_PREFIXES.replace(' ', '|')})-\d{{2,3}}\b")

FOREIGN_CITATION = re.compile(
    r"\b(?i:acceptance|findings?|pages|requirements?|specification|issue) (?:[A-Za-z]?\d+(?:\.\d+)*|[A-Z])\b"
    r"|\bof the (?:second )?acceptance\b|\b(?:the|this|a) specification\b"
)
"""Ids of documents that a reader of the repository does not have."""


def list_citing_files(*folders):
    for folder in folders:
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if path.name != "test_interface_ids.py")


def find_cited_ids():
    """Return the ids with the first file that cites them."""
    cited = {}
    for path in list_citing_files(*CITING_FOLDERS):
        for interface_id in ID_PATTERN.findall(path.read_text()):
            cited.setdefault(interface_id, str(path.relative_to(ROOT)))
    return cited


def list_explained_ids():
    return re.findall(rf"^\| ({ID_PATTERN.pattern}) \| .+ \|$", (ROOT / "docs" / "interface.md").read_text(), re.M)


def test_cited_interface_ids_are_explained():
    explained = set(list_explained_ids())
    assert {key: file for key, file in find_cited_ids().items() if key not in explained} == {}


def test_interface_ids_are_explained_once():
    assert [key for key, count in Counter(list_explained_ids()).items() if count > 1] == []


def test_tests_cite_only_interface_ids():
    assert [
        f"{path.relative_to(ROOT)}: {citation}"
        for path in list_citing_files("tests")
        for citation in FOREIGN_CITATION.findall(path.read_text())
    ] == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("Acceptance A3.", True),
        ("(finding M6)", True),
        ("pages m18", True),
        ("Requirement 11", True),
        ("specification 2.9", True),
        ("Issue 12, 7", True),
        ("OP-02: findings of a scan, two pages, an issue of the browser", False),
    ],
)
def test_foreign_citation_is_found(text, is_found):
    assert (FOREIGN_CITATION.search(text) is not None) is is_found
