"""A pseudo-language with all texts of the catalog in brackets. Texts without brackets bypass gettext."""

import pytest
from babel.messages.pofile import read_po, write_po

from panel.core import languages, mail

PSEUDO_LANGUAGE = "eo"
PSEUDO_HEADERS = {"Accept-Language": f"{PSEUDO_LANGUAGE}, en;q=0.5"}


def bracket(text):
    return f"⟦{text}⟧"


def write_catalog(folder):
    """Write the catalog of the pseudo-language from the template of all catalogs."""
    path = folder / PSEUDO_LANGUAGE / "LC_MESSAGES" / "messages.po"
    path.parent.mkdir(parents=True)
    with open(languages.TRANSLATIONS_FOLDER / "messages.pot", "rb") as template:
        catalog = read_po(template, locale=PSEUDO_LANGUAGE)
    for message in catalog:
        if message.id:
            is_plural = isinstance(message.id, tuple)
            message.string = tuple(map(bracket, message.id)) if is_plural else bracket(message.id)
    with open(path, "wb") as file:
        write_po(file, catalog)


@pytest.fixture
def pseudo_language(app, tmp_path, monkeypatch):
    """Add the language to the panel. Yields the headers of a browser that prefers it."""
    caches = (languages.list_languages, languages.load_translations, mail.get_template_environment)
    write_catalog(tmp_path)
    monkeypatch.setattr(languages, "TRANSLATIONS_FOLDER", tmp_path)
    for cache in caches:
        cache.cache_clear()
    yield PSEUDO_HEADERS
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()
    languages.current_language.set(languages.DEFAULT_LANGUAGE)
