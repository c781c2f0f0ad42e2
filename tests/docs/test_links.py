"""Relative links and anchors in the documents of the repository have existing targets."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(path for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY") if (path := ROOT / f"{name}.md").exists()),
    *sorted((ROOT / "docs").rglob("*.md")),
]
CODE_PATTERN = re.compile(r"^```.*?^```|^(?: {4}|\t).*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK_PATTERN = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
HEADING_PATTERN = re.compile(r"^#{1,6} (.+?)\s*#*$", re.MULTILINE)
EXTERNAL_LINK_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def find_links(path: Path) -> list[str]:
    """Return the targets of all links inside the repository."""
    text = CODE_PATTERN.sub("", path.read_text())
    return [target for target in LINK_PATTERN.findall(text) if not EXTERNAL_LINK_PATTERN.match(target)]


@cache
def list_anchors(path: Path) -> set[str]:
    """Return the anchors of all headings, as code hosting sites make them."""
    anchors = set()
    for heading in HEADING_PATTERN.findall(
        re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    ):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        base = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        repeated = sum(1 for anchor in anchors if re.fullmatch(re.escape(base) + r"(-\d+)?", anchor))
        anchors.add(f"{base}-{repeated}" if repeated else base)
    return anchors


def link_error(source: Path, target: str) -> str | None:
    """Return what is wrong with the target of a link."""
    file, _, anchor = target.partition("#")
    path = (source.parent / file).resolve() if file else source
    if not path.is_relative_to(ROOT):
        return f"{target} leads out of the repository"
    if not path.exists():
        return f"{target} does not exist"
    if anchor and (path.suffix != ".md" or anchor not in list_anchors(path)):
        return f"{target} has no such heading"
    return None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_document_links_have_existing_targets(path):
    errors = [error for target in find_links(path) if (error := link_error(path, target))]
    assert not errors


def test_broken_links_are_found():
    document = ROOT / "README.md"
    assert link_error(document, "docs/missing.md") == "docs/missing.md does not exist"
    assert link_error(document, "docs/backup.md#nowhere") == "docs/backup.md#nowhere has no such heading"
    assert link_error(document, "docs/backup.md#make-a-backup") is None
    assert link_error(document, "../outside.md") == "../outside.md leads out of the repository"
