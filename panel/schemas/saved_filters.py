"""The form that saves a list's filter."""

from panel.schemas.base import In, Name, Text


class SavedFilterIn(In):
    name = Name(required=True, maximum=64)
    page = Text(required=True, maximum=64)
    query = Text(required=True, maximum=1024)
