"""What is wrong with the catalog of a language, compared with the template of all catalogs."""

import re
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

PARTS_PATTERN = re.compile(r"%\(\w+\)[a-z]|%%|%|\{\w*(?:[:.!][^{}]*)?\}")
"""Placeholders of both kinds and percent signs."""
TAG_PATTERN = re.compile(r"</?\w[^>]*>")


def read_catalog(path: Path, language: str | None = None) -> Catalog:
    with open(path, "rb") as file:
        return read_po(file, locale=language)


def list_problems(template: Catalog, catalog: Catalog) -> list[str]:
    """Return a line for each text that is missing, fuzzy or obsolete, or whose parts differ from the English ones."""
    problems = [f"obsolete: {list_forms(text)[0]}" for text in catalog.obsolete]
    for message in catalog:
        if message.id and message.id not in template:
            problems.append(f"obsolete: {list_forms(message.id)[0]}")
        elif message.id:
            problems += [f"{problem}: {list_forms(message.id)[0]}" for problem in check_translation(message, catalog)]
    problems += [f"missing: {list_forms(text.id)[0]}" for text in template if text.id and text.id not in catalog]
    return sorted(problems)


def check_translation(message, catalog):
    """Yield what is wrong with a translation. Each form has the parts of an English one: that for one thing may leave
    out the number."""
    english, forms = list_forms(message.id), list_forms(message.string)
    if not all(forms) or len(forms) != (catalog.num_plurals if len(english) > 1 else 1):
        yield "missing"
        return
    if message.fuzzy:
        yield "fuzzy"
    for pattern, problem in ((PARTS_PATTERN, "other placeholders or percent signs"), (TAG_PATTERN, "other HTML tags")):
        expected = [set(pattern.findall(form)) for form in english]
        if any(set(pattern.findall(form)) not in expected for form in forms):
            yield problem


def list_forms(text):
    return [text] if isinstance(text, str) else list(text)
