"""Sentences for people, kept as a template and its parameters so that whoever shows one can translate it.

    raise Conflict(message("The plan {plan} has no room.", plan=plan.name))

Services and workers do not translate. The web layer and the mail renderer do, with `translate_with`. The first argument
of `message` is always a literal: `make messages` collects these literals for the catalogs.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from gettext import NullTranslations
from string import Formatter
from typing import Any

import orjson

STORED_PREFIX = '{"message":'


class Message(str):
    """English text that keeps its template and its parameters. Everything that takes text takes a message.

    A parameter may be a message itself. `plural` is the template for all counts but one.
    """

    __slots__ = ("parameters", "plural", "template")
    template: str
    parameters: dict[str, Any]
    plural: str | None

    def __new__(
        cls, template: str, parameters: Mapping[str, Any] | None = None, plural: str | None = None
    ) -> "Message":
        parameters = {name: to_parameter(value) for name, value in (parameters or {}).items()}
        form = plural if plural is not None and parameters["count"] != 1 else template
        text = str.format_map(form, KeptPlaceholders(parameters)) if parameters else template
        self = super().__new__(cls, text)
        self.template, self.parameters, self.plural = str(template), parameters, plural
        return self

    def __getnewargs__(self) -> tuple[str, dict[str, Any], str | None]:  # type: ignore[override]  # those of __new__
        return self.template, self.parameters, self.plural

    def format(self, **values: Any) -> "Message":  # type: ignore[override]  # takes no positions
        """Return the message with these parameters besides its own. The names that its template lacks are ignored,
        because marshmallow offers more of them to every error text."""
        names = list_field_names(self.template + (self.plural or ""))
        added = {name: values[name] for name in names if name in values}
        return Message(self.template, added | self.parameters, self.plural)


class KeptPlaceholders(dict[str, Any]):
    """Parameters of a message that gets the others later, by `format`: their placeholders stay."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


@lru_cache(maxsize=2048)
def list_field_names(template: str) -> tuple[str, ...]:
    return tuple({name for _, name, _, _ in Formatter().parse(template) if name})


def message(template: str, /, **parameters: Any) -> Message:
    """Return a message. `template` is a literal English sentence with `{name}` for each parameter."""
    return Message(template, parameters)


def plural_message(singular: str, plural: str, /, *, count: int, **parameters: Any) -> Message:
    """Return a message about a number of things, which both templates call `{count}`."""
    return Message(singular, parameters | {"count": count}, plural)


def join_messages(sentences: Iterable[str], separator: str = " ") -> str:
    """Return sentences, or the parts of a list, one after the other."""
    sentences = list(sentences)
    if len(sentences) == 1:
        return sentences[0]
    parameters = {f"sentence_{number}": sentence for number, sentence in enumerate(sentences)}
    return Message(separator.join(f"{{{name}}}" for name in parameters), parameters)


def to_parameter(value: Any) -> str | int | float:
    return value if isinstance(value, (str, int, float)) else str(value)


def get_message(error: BaseException) -> str:
    """Return the sentence of an exception: its message where it has one, else its text."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, Message) else str(error)


def translate_with(text: str, translations: NullTranslations) -> str:
    """Return a message in the language of `translations`, a gettext catalog; other text as it is."""
    if not isinstance(text, Message) or not text:
        return text
    if text.plural is not None:
        template = translations.ngettext(text.template, text.plural, text.parameters["count"])
    else:
        template = translations.gettext(text.template)
    if not text.parameters:
        return template
    return template.format(**{name: translate_with(value, translations) for name, value in text.parameters.items()})


def to_stored(text: str | None) -> str | None:
    """Return a message as the text of a column: JSON when it has parameters, else the sentence itself."""
    if isinstance(text, Message) and text.parameters:
        options = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_SORT_KEYS
        return orjson.dumps(as_dict(text), default=as_dict, option=options).decode()
    if text is not None and text.startswith(STORED_PREFIX):
        return to_stored(Message("{text}", {"text": str(text)}))
    return text if text is None else str(text)


def as_dict(value: Any) -> Any:
    """Return what JSON keeps of a message; other subclasses of str (names of an enum) become plain text."""
    if not isinstance(value, Message):
        return str(value)
    facts = {"message": value.template, "parameters": value.parameters, "plural": value.plural}
    return {name: fact for name, fact in facts.items() if fact}


def from_dict(facts: dict[str, Any]) -> Message:
    if not isinstance(facts["message"], str):
        raise TypeError(facts["message"])
    parameters = {
        name: from_dict(value) if isinstance(value, dict) else value
        for name, value in facts.get("parameters", {}).items()
    }
    if parameters and not parameters.keys() >= set(list_field_names(facts["message"])):
        raise KeyError(facts["message"])
    return Message(facts["message"], parameters, facts.get("plural"))


def dump_facts(facts: dict[str, Any]) -> str:
    """Return a dictionary as JSON that keeps the messages among its values."""
    options = orjson.OPT_PASSTHROUGH_SUBCLASS
    return orjson.dumps(facts, default=as_dict, option=options).decode()


def load_facts(text: str | bytes) -> dict[str, Any]:
    """Return the dictionary that `dump_facts` wrote."""
    facts = orjson.loads(text)
    return {name: from_dict(fact) if is_stored_message(fact) else fact for name, fact in facts.items()}


def is_stored_message(fact: Any) -> bool:
    return isinstance(fact, dict) and fact.keys() <= {"message", "parameters", "plural"} and "message" in fact


@lru_cache(maxsize=2048)
def from_stored(text: str | None) -> Message | None:
    """Return the message of a column's text. Cached, because the same stages and errors are in many rows."""
    if text is None:
        return None
    if text.startswith(STORED_PREFIX):
        try:
            return from_dict(orjson.loads(text))
        except (ValueError, LookupError, AttributeError, TypeError):
            pass  # text of others that only looks like one
    return Message(text)
