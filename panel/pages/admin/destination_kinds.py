"""The kinds of backup destinations that the form offers, each with the fields of its settings."""

from dataclasses import dataclass

from panel.web.translation import lazy_gettext


@dataclass(frozen=True)
class ConfigField:
    """A setting of a kind of destination, validated by the API's field of the same name. Stored values are never shown;
    a secret not even when the form is refused."""

    name: str
    label: str
    hint: str = ""
    placeholder: str = ""
    is_required: bool = True
    is_secret: bool = False
    options: tuple[tuple[str, str], ...] = ()
    """Choices of value and label; empty for a text field."""


@dataclass(frozen=True)
class DestinationKind:
    label: str
    fields: tuple[ConfigField, ...]


DESTINATION_KINDS = {
    "local": DestinationKind(
        lazy_gettext("Directory"),
        (
            ConfigField(
                "path",
                lazy_gettext("Directory"),
                lazy_gettext("Every worker must reach it under this path. Created if it does not exist."),
                "/srv/backups",
            ),
        ),
    ),
}
"""By `storage_type`. A destination of another kind can be edited without its settings."""


def get_kind(storage_type):
    """Return the kind, or one without settings when the form does not know it."""
    return DESTINATION_KINDS.get(storage_type) or DestinationKind(storage_type, ())
