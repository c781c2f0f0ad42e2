"""Translation of pages: gettext for templates and page code, and the choice of the language.

    from panel.web.translation import gettext as _
    flash_message(_("Key %(name)s deleted.", name=key.name))

A literal percent sign is written `%%`. Services do not translate: they raise and store a `Message`, which `translate`
turns into the request's language.
"""

from flask import Flask, g, has_request_context
from flask_babel import Babel, LazyString
from markupsafe import Markup

from panel.auth import browser_session
from panel.core import formatting, languages, messages
from panel.core.messages import Message


def init_app(app: Flask):
    """Set up translation, and the functions `_`, `ngettext`, `translate` and `page_language` of templates."""
    Babel(app, default_locale=languages.DEFAULT_LANGUAGE, locale_selector=get_request_language, configure_jinja=False)
    app.before_request(set_language_of_mails)
    environment = app.jinja_env
    environment.add_extension("jinja2.ext.i18n")
    environment.newstyle_gettext = True  # type: ignore[attr-defined]  # of the extension
    environment.finalize = translate  # messages of services and of rows, wherever a template shows them
    environment.policies["ext.i18n.trimmed"] = True
    environment.globals |= {"_": gettext_markup, "gettext": gettext_markup, "ngettext": ngettext_markup}
    environment.globals |= {"page_language": get_request_language, "translate": translate}


def get_request_language() -> str:
    """Return the language of the request, chosen once in each; English outside of requests."""
    try:
        return g.language  # the fast path: lists call this a thousand times
    except AttributeError:
        g.language = choose_language() if has_request_context() else languages.DEFAULT_LANGUAGE
        return g.language
    except RuntimeError:  # no application context
        return languages.DEFAULT_LANGUAGE


def choose_language() -> str:
    """Return the language that the viewer has chosen, else the one that the browser prefers. An operator who acts as a
    customer keeps the operator's language."""
    viewer = browser_session.find_impersonator() or browser_session.get_current_account()
    chosen = viewer.language if viewer else None
    if chosen in languages.list_languages():
        return chosen
    return browser_session.find_browser_language() or languages.DEFAULT_LANGUAGE


def set_language_of_mails():
    """Let the mails of this request be written in the browser's language. When the session is loaded, the language that
    the person has chosen replaces it."""
    languages.current_language.set(browser_session.find_browser_language() or languages.DEFAULT_LANGUAGE)


def get_translations():
    """Return the catalog of the request's language."""
    return languages.load_translations(get_request_language())


def gettext(text: str, /, **parameters) -> str:
    """Return the text in the request's language: `_("Group %(name)s created.", name=name)`."""
    translated = get_translations().gettext(text)
    return translated % translate_values(parameters) if "%" in translated else translated


def ngettext(singular: str, plural: str, number: int, /, **parameters) -> str:
    """Return the text for a number of things; `%(num)s` is the number with separators."""
    return get_translations().ngettext(singular, plural, number) % {
        "num": formatting.format_count(number, get_request_language()),
        **translate_values(parameters),
    }


def translate_values(parameters):
    """Return parameters with their messages in the request's language, because a sentence may quote another."""
    return {name: translate(value) for name, value in parameters.items()}


def lazy_gettext(text: str, /, **parameters) -> LazyString:
    """Return a text that is translated when it is shown, for tables that are built at import."""
    return LazyString(gettext, text, **parameters)


def gettext_markup(text: str, /, **parameters) -> Markup:
    """Return the text as HTML, with its parameters escaped. Translators may use tags."""
    translated = Markup(get_translations().gettext(text))
    return translated % translate_values(parameters) if "%" in translated else translated


def ngettext_markup(singular: str, plural: str, number: int, /, **parameters) -> Markup:
    return Markup(get_translations().ngettext(singular, plural, number)) % {
        "num": formatting.format_count(number, get_request_language()),
        **translate_values(parameters),
    }


def translate(text: str) -> str:
    """Return a `Message` in the request's language. Everything else is returned unchanged."""
    return messages.translate_with(text, get_translations()) if isinstance(text, Message) else text
