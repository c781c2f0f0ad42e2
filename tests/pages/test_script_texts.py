"""The texts that scripts show come from the page, where they are translated."""

import re

import orjson
import pytest
from lxml import html

from panel.core.config import ROOT
from tests.support.pseudo_language import pseudo_language  # noqa: F401

STATIC_FOLDER = ROOT / "static"
SCRIPT_PATHS = [*STATIC_FOLDER.glob("*.js"), *(STATIC_FOLDER / "consoles").rglob("*.js")]
COMMENT_PATTERN = re.compile(r"(^|\s)//.*$|/\*.*?\*/", re.MULTILINE | re.DOTALL)
SENTENCE_PATTERN = re.compile(r"""["'`]([A-Z][a-z]+[ .][^"'`\n]*)["'`]""")
TEMPLATE_PARAMETERS = {
    "console/vnc.html": {
        "socket": "/s",
        "password": "p",
        "state": "/state",
        "new_session_url": "/again",
        "keymap": "de",
    },
    "console/ssh_shell.html": {"opening": "/open", "host_key": "/key"},
}
SCRIPT_FOLDERS = {"console/vnc.html": "vnc", "console/ssh_shell.html": "ssh_shell"}


def read_scripts(name):
    consoles = STATIC_FOLDER / "consoles"
    paths = [consoles / f"{name}.js", consoles / "requests.js", *(consoles / name).glob("*.js")]
    return "\n".join(path.read_text() for path in paths)


def render_page(app, template):
    with app.test_request_context(headers={"Accept-Language": "eo"}):
        text = app.jinja_env.get_template(template).render(
            name="web-1", back="/instances/1", power=[], **TEMPLATE_PARAMETERS[template]
        )
    return html.fromstring(text)


def list_texts(value):
    return [text for entry in value.values() for text in (list_texts(entry) if isinstance(entry, dict) else [entry])]


def test_scripts_contain_no_sentences():
    sentences = {
        f"{path.name}: {sentence}"
        for path in SCRIPT_PATHS
        for sentence in SENTENCE_PATTERN.findall(COMMENT_PATTERN.sub("", path.read_text()))
    }
    assert sentences == set()


@pytest.mark.parametrize("template", TEMPLATE_PARAMETERS)
def test_console_page_has_translated_texts_of_its_scripts(app, template, pseudo_language):
    page = render_page(app, template)
    [block] = page.xpath("//script[@id='texts']")
    texts = orjson.loads(block.text)
    used = set(re.findall(r"\btexts\.(\w+)", read_scripts(SCRIPT_FOLDERS[template])))
    assert used == texts.keys()
    assert all(text.startswith("⟦") for text in list_texts(texts))


@pytest.mark.parametrize("template", TEMPLATE_PARAMETERS)
def test_console_page_import_map_has_all_modules(app, template):
    page = render_page(app, template)
    [block] = page.xpath("//script[@type='importmap']")
    modules = orjson.loads(block.text)["imports"].keys()
    imported = set(re.findall(r'(?:from|import) "([^"]+)"', read_scripts(SCRIPT_FOLDERS[template])))
    assert {module for module in imported if not module.startswith("novnc/")} <= modules


def test_shell_key_buttons_have_untranslated_names(app):
    """The names are sent to the guest, so they must not be translated."""
    page = render_page(app, "console/ssh_shell.html")
    names = page.xpath("//button[@data-key]/@data-key")
    assert names == ["Escape", "Tab", "Up", "Down", "Left", "Right", "Home", "End", "|", "/", "-", "~"]
