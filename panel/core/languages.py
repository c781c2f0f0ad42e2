"""The languages of pages and mails: English, and those with a compiled catalog in panel/translations.

English needs no catalog, because the texts in the code are English. APIs, logs and commands are English only.
"""

from contextvars import ContextVar
from functools import cache

from babel.support import NullTranslations, Translations

from panel.core.config import ROOT

DEFAULT_LANGUAGE = "en"
TRANSLATIONS_FOLDER = ROOT / "panel" / "translations"
"""Holds messages.pot, and for each language LANGUAGE/LC_MESSAGES/messages.po and .mo."""

current_language: ContextVar[str] = ContextVar("current_language", default=DEFAULT_LANGUAGE)
"""The language of the request. Mails that it causes are written in it."""


@cache
def list_languages() -> tuple[str, ...]:
    """Return the codes of all languages, English first."""
    catalogs = sorted(TRANSLATIONS_FOLDER.glob("*/LC_MESSAGES/messages.mo"))
    return DEFAULT_LANGUAGE, *(path.parent.parent.name for path in catalogs)


@cache
def load_translations(language: str) -> NullTranslations:
    """Return the catalog of a language; an empty one for English."""
    return Translations.load(TRANSLATIONS_FOLDER, [language]) if language != DEFAULT_LANGUAGE else NullTranslations()
