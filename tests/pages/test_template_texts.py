"""Every text in the sources of the templates passes gettext."""

import re

import pytest
from jinja2 import Environment, nodes
from lxml import html

from panel.core.config import ROOT

TEMPLATE_FOLDERS = ("admin", "bulk", "charts", "customer", "docs", "layout", "shared")
JINJA_TOKEN_PATTERN = re.compile(r"\{#.*?#\}|\{% trans .*?\{% endtrans %\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
VISIBLE_ATTRIBUTES = ("aria-label", "data-label", "placeholder", "title")
TEXT_PATTERN = re.compile(r"[A-Z][a-z]{2}|[a-z] [a-z]")
WORD_PATTERN = re.compile(r"[a-z]{3}")
OPAQUE_FUNCTIONS = {"_", "gettext", "ngettext", "url_for", "refusal", "may"}
OPAQUE_ARGUMENTS = {"api", "body", "class", "disable", "placeholder", "variant"}
UNTRANSLATED_TEXT_PATTERN = re.compile(
    r"Panel|Mbit/s|ms|\( ms\)|panel token (admin|billing)|ssh root@|[Ss]andbox\.[a-z.]+\(.*|prod, web|-tag:prod"
    r"|name:\"big one\"|power off|location /.*|document\..*|vendor/.*|(icon|btn)-.*"
    r"|pip install .*|panel image build.*|/vm//",
    re.DOTALL,
)
"""The product's name, units, commands, examples and code."""
JINJA_ENVIRONMENT = Environment(extensions=["jinja2.ext.i18n"])


def list_template_paths():
    return [path for folder in TEMPLATE_FOLDERS for path in sorted((ROOT / "templates" / folder).rglob("*.html"))]


def find_plain_texts(source):
    """Return the text and the visible attributes that stand outside of Jinja's expressions."""
    tree = html.fromstring(f"<div>{JINJA_TOKEN_PATTERN.sub('', source)}</div>")
    texts = [*tree.itertext(), *(node.get(name, "") for node in tree.iter() for name in VISIBLE_ATTRIBUTES)]
    return [text.strip() for text in texts if re.search("[a-z]{2}", text)]


def find_plain_strings(node):
    """Yield the sentences and labels in expressions below the node that bypass gettext."""
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.Keyword) and child.key in OPAQUE_ARGUMENTS:
            continue
        if isinstance(child, nodes.Call) and getattr(child.node, "name", "") in OPAQUE_FUNCTIONS:
            continue
        if isinstance(child, nodes.Const) and isinstance(child.value, str) and TEXT_PATTERN.search(child.value):
            yield child.value
        yield from find_plain_strings(child)


def find_plain_words(tree):
    """Yield the words for a missing value (`x or "none"`) and those beside a translated text that bypass gettext."""
    for node in tree.find_all((nodes.Or, nodes.CondExpr)):
        parts = list(node.iter_child_nodes())
        if isinstance(node, nodes.Or) or any(getattr(getattr(part, "node", None), "name", "") == "_" for part in parts):
            texts = [part.value for part in parts if isinstance(part, nodes.Const)]
            yield from [text for text in texts if isinstance(text, str) and WORD_PATTERN.search(text)]


@pytest.mark.parametrize("path", list_template_paths(), ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_template_texts_pass_gettext(path):
    source = path.read_text()
    tree = JINJA_ENVIRONMENT.parse(source)
    texts = [*find_plain_texts(source), *find_plain_strings(tree), *find_plain_words(tree)]
    assert [text for text in texts if not UNTRANSLATED_TEXT_PATTERN.fullmatch(text)] == []


def test_plain_texts_are_found():
    source = """{% set no = "Not now" %}{{ ui.field(form, "name", "Name", hint="a b c", placeholder="Ada") }}
    <p title="Hint {{ _("Save") }}">Plain{% if x %} {{ _("More") }}{% endif %}</p>
    {% trans name=x %}By {{ name }}{% endtrans %}"""
    assert find_plain_texts(source) == ["Plain", "Hint"]
    assert list(find_plain_strings(JINJA_ENVIRONMENT.parse(source))) == ["Not now", "Name", "a b c"]


def test_plain_words_are_found():
    source = """{{ x or "none" }}{{ _("On") if x else "off" }}{{ "active" if x }}{{ x or _("none") }}"""
    assert list(find_plain_words(JINJA_ENVIRONMENT.parse(source))) == ["none", "off"]
