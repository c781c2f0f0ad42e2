"""The form that saves a list's filter."""

from marshmallow import ValidationError

from panel.core.messages import message
from panel.schemas.base import In, Name, Text
from panel.schemas.constants import MAX_FILTER_PARAMETERS


def check_parameter_count(query):
    if query.count("&") >= MAX_FILTER_PARAMETERS:
        raise ValidationError(message("This filter has too many values."))


class SavedFilterIn(In):
    name = Name(required=True, maximum=64)
    page = Text(required=True, maximum=64)
    query = Text(required=True, maximum=1024, rules=[check_parameter_count])
