"""Environment variables in forms: a text area with `NAME=value` in each line."""

from marshmallow import ValidationError

from panel.core.messages import message
from panel.schemas.microvms import EnvironmentVariables


class EnvironmentText(EnvironmentVariables):
    def _deserialize(self, value, attr, data, **kwargs):
        pairs = [line.strip().partition("=") for line in str(value).splitlines() if line.strip()]
        if any(not name.strip() or not sign for name, sign, _text in pairs):
            raise ValidationError(message("Enter a variable as NAME=value in each line."))
        return super()._deserialize({name.strip(): text for name, _sign, text in pairs}, attr, data, **kwargs)
