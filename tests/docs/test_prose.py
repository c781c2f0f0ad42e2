"""The texts of the API reference use plain words, and product code cites only what is in the repository."""

import json
import re

import pytest

from tests.support.product_code import PACKAGES, ROOT

AWKWARD_WORDS = [
    "anew",
    "by then",
    "given up",
    "goes on",
    "kept nowhere",
    "mint",
    "minted",
    "nobody",
    "obey",
    "obeyed",
    "oneself",
    "promised",
    "under way",
]
AWKWARD_PATTERN = re.compile(rf"\b(?:{'|'.join(AWKWARD_WORDS)})\b", re.I)
CODE_PATTERN = re.compile(r"`[^`]*`")
"""Values of the interface, such as the role `nobody`, are not prose."""
CITATION_PATTERN = re.compile(r"specification,?\s+(?:section\s+)?\d|\(spec, section \d", re.I)


def list_texts(part):
    """Return the descriptions and summaries of a part of an OpenAPI document."""
    if isinstance(part, list):
        return [text for item in part for text in list_texts(item)]
    if not isinstance(part, dict):
        return []
    own = [part[key] for key in ("summary", "description") if isinstance(part.get(key), str)]
    return own + [text for value in part.values() for text in list_texts(value)]


@pytest.mark.parametrize("surface", ["admin", "user"])
def test_api_reference_uses_plain_words(surface):
    texts = list_texts(json.loads((ROOT / "api" / "openapi" / f"{surface}.json").read_text()))
    assert len(texts) > 500
    assert [text for text in texts if AWKWARD_PATTERN.search(CODE_PATTERN.sub("", text))] == []


def test_product_code_cites_no_specification():
    """The specification is not in the repository: docs/interface.md explains the ids that code cites instead."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    assert [str(path.relative_to(ROOT)) for path in paths if CITATION_PATTERN.search(path.read_text())] == []
