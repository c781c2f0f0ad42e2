"""The form of a backup destination, in which the settings of its kind are beside the other fields."""

from functools import partial

from panel.core.errors import Invalid
from panel.pages.admin.destination_kinds import get_kind
from panel.schemas.backup_destinations import BackupDestinationIn, BackupDestinationPatch
from panel.web.forms import Form, translate_error
from panel.web.translation import gettext as _

CONFIG_PREFIX = "config."
"""What precedes the name of a setting in the errors of the API."""


class DestinationForm(Form):
    """Settings that are left empty stay as they are in a change."""

    def __init__(self, kind_name, *, is_new, initial=None):
        self.kind, self.is_new = get_kind(kind_name), is_new
        schema = BackupDestinationIn if is_new else BackupDestinationPatch
        config_schema = type(schema().fields["config"].schema)
        names = [field.name for field in self.kind.fields]
        super().__init__(
            partial(schema, exclude=("config",) if is_new else ("config", "storage_type")),
            partial(config_schema, only=names, partial=True),
            initial=initial,
        )

    def is_required(self, name):
        return self.is_new and (super().is_required(name) or name in self.list_required_settings())

    def list_required_settings(self):
        return [field.name for field in self.kind.fields if field.is_required]

    def submit(self, action):
        """Call `action` with the settings in `config`, if there are any."""

        def submit_settings(**values):
            names = [field.name for field in self.kind.fields if field.name in values]
            config = {name: values.pop(name) for name in names}
            missing = [name for name in self.list_required_settings() if self.is_new and name not in config]
            if missing:
                text = _("This field is required.")
                raise Invalid(text, **dict.fromkeys(missing, text))
            try:
                return action(**values, **({"config": config} if config else {}))
            except Invalid as error:
                raise name_settings(error) from None

        return super().submit(submit_settings)


def name_settings(error):
    """Return the error with the names of settings as the form has them."""
    fields = {
        name.removeprefix(CONFIG_PREFIX): [translate_error(text) for text in texts]
        for name, texts in error.fields.items()
    }
    return Invalid(error.message, reason=error.reason, **fields)
