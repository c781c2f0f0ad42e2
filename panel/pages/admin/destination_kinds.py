"""The kinds of backup destinations that the form offers, each with the fields of its settings."""

from dataclasses import dataclass

from marshmallow import Schema

from panel.schemas.backup_destinations import LocalConfig
from panel.web.translation import lazy_gettext


@dataclass(frozen=True)
class ConfigField:
    """A setting of a kind of destination. Stored values are never shown; a secret not even when the form is refused."""

    name: str
    label: str
    hint: str = ""
    placeholder: str = ""
    is_secret: bool = False


@dataclass(frozen=True)
class DestinationKind:
    label: str
    config_schema: type[Schema]
    fields: tuple[ConfigField, ...]


DESTINATION_KINDS = {
    "local": DestinationKind(
        lazy_gettext("Directory"),
        LocalConfig,
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
    return DESTINATION_KINDS.get(storage_type) or DestinationKind(storage_type, Schema, ())
