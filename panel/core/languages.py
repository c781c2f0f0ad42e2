"""The languages of pages and mails: English, and those with a catalog in panel/translations.

English needs no catalog, because the texts in the code are English. APIs, logs and commands are English only.
Catalogs are read from their `.po` files, which takes a quarter of a second once a process: nothing has to be compiled
when the panel is installed.
"""

from contextvars import ContextVar
from functools import cache
from io import BytesIO

from babel import Locale
from babel.support import NullTranslations, Translations

from panel.core.config import ROOT

DEFAULT_LANGUAGE = "en"
TRANSLATIONS_FOLDER = ROOT / "panel" / "translations"
"""Holds messages.pot, and LANGUAGE/LC_MESSAGES/messages.po for each language."""

current_language: ContextVar[str] = ContextVar("current_language", default=DEFAULT_LANGUAGE)
"""The language of the request. Mails that it causes are written in it, unless their recipient has another one."""


@cache
def list_languages() -> tuple[str, ...]:
    """Return the codes of all languages, English first."""
    catalogs = sorted(TRANSLATIONS_FOLDER.glob("*/LC_MESSAGES/messages.po"))
    return DEFAULT_LANGUAGE, *(path.parent.parent.name for path in catalogs)


def list_language_names() -> list[tuple[str, str]]:
    """Return (code, name in the language itself) of all languages."""
    return [(language, get_language_name(language)) for language in list_languages()]


@cache
def get_language_name(language: str) -> str:
    return str(Locale.parse(language).get_display_name(language)).title()


@cache
def load_translations(language: str) -> NullTranslations:
    """Return the catalog of a language; an empty one for English."""
    if language == DEFAULT_LANGUAGE:
        return NullTranslations()
    from babel.messages.mofile import write_mo  # here, because commands that need no catalog start faster without it
    from babel.messages.pofile import read_po

    compiled = BytesIO()
    with open(TRANSLATIONS_FOLDER / language / "LC_MESSAGES" / "messages.po", "rb") as file:
        write_mo(compiled, read_po(file, locale=language))
    compiled.seek(0)
    return Translations(compiled)


def preload_translations() -> None:
    """Load all catalogs, for a process that is about to fork others."""
    for language in list_languages():
        load_translations(language)
