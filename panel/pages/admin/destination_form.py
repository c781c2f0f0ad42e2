"""The form of a backup destination, in which the settings of its kind are beside the other fields."""

from functools import partial

from flask import request
from marshmallow import ValidationError
from werkzeug.datastructures import MultiDict

from panel.core.errors import Invalid, Problem
from panel.pages.admin.destination_kinds import get_kind
from panel.schemas.backup_destinations import (
    BackupDestinationIn,
    BackupDestinationPatch,
    DestinationConfig,
    FingerprintIn,
)
from panel.services.backup_destination_settings import REQUIRED_SETTINGS
from panel.web.forms import Form, flatten_errors, translate_error
from panel.web.translation import translate
from panel.workflows import fingerprint_probe

CLEAR_PREFIX = "clear_"
"""What precedes the name of a setting in the name of the checkbox that removes it."""

CONFIG_PREFIX = "config."
"""What precedes the name of a setting in the errors of the API."""


class DestinationForm(Form):
    """Settings that are left empty stay as they are in a change, unless their checkbox removes them."""

    def __init__(self, kind_name, *, is_new, initial=None, schemas=(BackupDestinationIn, BackupDestinationPatch)):
        """`schemas`: those of a new destination and of a change."""
        self.kind, self.is_new = get_kind(kind_name), is_new
        self.required_settings = REQUIRED_SETTINGS.get(kind_name, ())
        schema = schemas[0] if is_new else schemas[1]
        names = [field.name for field in self.kind.fields]
        super().__init__(
            partial(schema, exclude=("config",) if is_new else ("config", "storage_type")),
            partial(DestinationConfig, only=names),
            initial=initial,
        )

    def is_required(self, name):
        return self.is_new and (super().is_required(name) or name in self.required_settings)

    def fill_in_fingerprint(self, stored, *, actor):
        """Take the fields of the request, and the fingerprint of the server that they name; or show why not."""
        self.sent = MultiDict(request.form)
        address = {name: request.form.get(name, "").strip() or stored.get(name, "") for name in ("host", "port")}
        try:
            values = FingerprintIn().load({name: as_number(value) for name, value in address.items() if value})
            self.sent["fingerprint"] = fingerprint_probe.run(**values, actor=actor)
        except ValidationError as error:
            self.errors = {"fingerprint": " ".join(map(flatten_errors, error.normalized_messages().values()))}
        except Problem as error:
            self.errors = {"fingerprint": translate(error.message)}
        self.status = 422 if self.errors else 200

    def submit(self, action):
        """Call `action` with the settings in `config`, if there are any."""

        def submit_settings(**values):
            names = [field.name for field in self.kind.fields if field.name in values]
            config = self.find_cleared_settings() | {name: values.pop(name) for name in names}
            try:
                return action(**values, **({"config": config} if config or self.is_new else {}))
            except Invalid as error:
                raise name_settings(error) from None

        return super().submit(submit_settings)

    def find_cleared_settings(self):
        """Return the settings that the form removes. A new destination has none."""
        names = [field.name for field in self.kind.fields if field.is_clearable and not self.is_new]
        return {name: "" for name in names if self.is_checked(CLEAR_PREFIX + name)}


def as_number(value):
    return int(value) if str(value).isdecimal() and len(str(value)) < 6 else value


def name_settings(error):
    """Return the error with the names of settings as the form has them."""
    fields = {
        name.removeprefix(CONFIG_PREFIX): [translate_error(text) for text in texts]
        for name, texts in error.fields.items()
    }
    return Invalid(error.message, reason=error.reason, **fields)
