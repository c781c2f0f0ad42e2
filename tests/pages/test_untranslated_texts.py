"""Every text of the pages passes gettext: in the pseudo-language, all of them are in brackets."""

import ast
import re
from zoneinfo import available_timezones

import orjson
import pytest
import yaml
from lxml import etree, html
from sqlalchemy import String, select

from panel.core.config import ROOT
from panel.core.db import db, session
from panel.core.languages import list_language_names
from panel.services import settings
from tests.support.instances import create_deployed_instance
from tests.support.link_crawler import crawl_pages
from tests.support.pseudo_language import pseudo_language  # noqa: F401

APPS_FOLDER = ROOT / "panel" / "services" / "docker_apps"
WORD_PATTERN = re.compile(r"[A-Za-z]{3,}")
IDENTIFIER_PATTERN = re.compile(r"[a-z0-9_@:./!#-]+( [a-z0-9_@:./!#-]*[./:_-][a-z0-9_@:./!#-]*)*")
UNIT_PATTERN = re.compile(r"\d[\d.,]* ?([kKMGT]i?B|[MG]bit/s|min|ms)\b")
DATE_PATTERN = re.compile(r"((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(\d{1,2} )?[A-Z][a-z]{2,8} \d{4}(, \d\d:\d\d:\d\d \w+)?")
PROPER_NAMES = {
    "Panel",
    "PHP",
    "Python",
    "SHA",
    "Deploy",
    "IPv",
    "ICMP",
    "ICMPv",
    "TCP",
    "UDP",
    "SSH",
    "HTTP",
    "HTTPS",
    "TPM",
    "API",
    "CSV",
    "UTC",
    "cloud",
    "init",
    "Node",
}
EXAMPLE_TEXTS = {"packages: - nginx", "ssh-ed25519 AAAA", "prod, web", "#!/bin/sh apt-get install -y nginx", "Mbit/s"}
COMMAND_TEXTS = {"panel token admin", "panel token billing", "pip install flask mkdir -p /srv/app", "MODE=production"}
ROLE_PRESETS = {"Administrator", "Operator", "Read only"}
"""Names of roles become rows when a customer creates them, so they are data."""
ENGLISH_PAGES = "/user/api/documentation", "/api/docs"
TIME_ZONES = available_timezones()
LABEL_ATTRIBUTES = ("aria-label", "title", "placeholder", "data-label", "hx-confirm", "data-confirm-label")
DATA_ELEMENTS = ("script", "style", "code", "pre", "kbd", "time", "svg", "textarea")
"""Elements whose text is data: code, key names, times in short units."""


def find_texts_outside_brackets(texts):
    """Yield what stands outside of brackets. They may be nested and may span several texts of a page."""
    depth = 0
    for text in texts:
        outside = ""
        for part in re.split("([⟦⟧])", text):
            depth += {"⟦": 1, "⟧": -1}.get(part, 0)
            outside += part if depth == 0 and part != "⟧" else " "
        yield " ".join(outside.split())


def find_visible_texts(page):
    """Yield the texts of a page outside of brackets, and those of its labels."""
    tree = html.fromstring(page)
    for element in tree.iter(etree.Element):
        for name in LABEL_ATTRIBUTES:
            yield from find_texts_outside_brackets([element.get(name, "")])
    for element in tree.xpath("/html/body//*[@lang]"):  # in a language of its own
        element.clear(keep_tail=True)
    etree.strip_elements(tree, *DATA_ELEMENTS, with_tail=False)
    yield from find_texts_outside_brackets(tree.itertext())


def load_row_texts():
    """Return all texts in the database: names, addresses, and what services and workers wrote."""
    texts = set()
    for table in db.metadata.tables.values():
        for column in table.columns:
            if isinstance(column.type, String):
                texts |= {text for text in session.scalars(select(column).distinct()) if text and text.isprintable()}
    return texts


def find_nested_texts(value):
    """Yield all texts of a parsed file."""
    if isinstance(value, str):
        yield " ".join(value.split())
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from find_nested_texts(part)


def read_image_catalog_texts():
    """Return names of distributions and releases."""
    catalog = orjson.loads((ROOT / "panel" / "services" / "image_catalog.json").read_bytes())
    return [text for text in find_nested_texts(catalog) if WORD_PATTERN.search(text)]


def compile_known_texts():
    """Return patterns of the texts that services, schemas and formatting write. Their sentences are translated where
    they are messages; names of apps, scopes and units are data."""
    folders = [ROOT / "panel" / name for name in ("auth", "core", "models", "schemas", "services")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    paths += (ROOT / "panel").rglob("power_buttons.py")
    patterns = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                patterns.add(".*".join(map(re.escape, re.split(r"\{[^}]*\}", node.value))))
            elif isinstance(node, ast.JoinedStr):
                parts = [re.escape(part.value) if isinstance(part, ast.Constant) else ".*" for part in node.values]
                patterns.add("".join(parts))
    patterns |= {f"[A-Z][a-z ]+: {pattern}" for pattern in patterns}  # a permission's verb and family
    patterns |= {
        re.escape(text)
        for path in APPS_FOLDER.glob("*.yaml")
        for text in find_nested_texts(yaml.safe_load(path.read_text()))
    }
    patterns |= set(map(re.escape, ROLE_PRESETS))
    return re.compile("|".join(pattern for pattern in sorted(patterns) if re.search("[A-Za-z]{3}", pattern)), re.DOTALL)


def is_untranslated(text, data, known_texts):
    """Return whether words are left when data is removed: rows, time zones, identifiers, numbers with units, dates."""
    text = UNIT_PATTERN.sub(" ", text).strip().removesuffix("…")
    if (
        text in EXAMPLE_TEXTS | COMMAND_TEXTS
        or known_texts.fullmatch(text)
        or IDENTIFIER_PATTERN.fullmatch(text)
        or text.replace(" ", "_") in TIME_ZONES
    ):
        return False
    for value in data:
        if value in text:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", " ", text)
    text = DATE_PATTERN.sub(" ", text)
    return any(word not in PROPER_NAMES for word in WORD_PATTERN.findall(text))


@pytest.mark.parametrize(("role", "start"), [("owner", "/"), ("admin", "/admin")])
def test_all_page_texts_are_translated(browser_as, cast, run_tasks, pseudo_language, role, start):
    settings.update({"billing_enabled": True})
    create_deployed_instance(cast, run_tasks)
    browser = browser_as(role)
    browser.environ_base["HTTP_ACCEPT_LANGUAGE"] = pseudo_language["Accept-Language"]
    answers = [(path, answer) for path, answer in crawl_pages(browser, start) if answer.mimetype == "text/html"]
    pages = [(path, answer) for path, answer in answers if not path.startswith(ENGLISH_PAGES)]
    assert len(pages) > 40
    language_names = [name for _, name in list_language_names()]
    data = sorted([*load_row_texts(), *read_image_catalog_texts(), *language_names], key=len, reverse=True)
    known_texts = compile_known_texts()
    paths_by_text = {text: path for path, answer in pages for text in find_visible_texts(answer.text)}
    untranslated = {text: path for text, path in paths_by_text.items() if is_untranslated(text, data, known_texts)}
    assert not untranslated, "\n".join(f"{path}: {text}" for text, path in untranslated.items())
