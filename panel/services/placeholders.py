"""Texts of operators with placeholders like `{name}`. Two braces stand for one."""

from collections.abc import Collection, Mapping
from string import Formatter

from panel.core.errors import Invalid
from panel.core.messages import message


def ensure_valid(field: str, text: str, names: Collection[str]) -> None:
    """Raise Invalid for `field` when the text has a placeholder that does not exist, or a single brace."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        sentence = message("Write two braces for each brace that is no placeholder.")
        raise Invalid(sentence, **{field: sentence}) from None
    for _, name, specification, conversion in parts:
        if name is not None and (name not in names or specification or conversion):
            known = ", ".join(f"{{{name}}}" for name in names)
            sentence = message("Unknown placeholder {name}. There are: {names}.", name=name, names=known)
            raise Invalid(sentence, **{field: sentence})


def list_used(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return the text with values. Nothing in it is evaluated: an unknown placeholder raises KeyError."""
    return "".join(part + (values[name] if name is not None else "") for part, name, _, _ in Formatter().parse(text))
