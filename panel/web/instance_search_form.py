"""The search field of instance lists, in both areas."""

from sqlalchemy import false

from panel.core.errors import Invalid
from panel.services import instances


def search_or_empty(account=None, **filters):
    """Return (select, error). For an invalid search the select is empty and the error is a message, else None."""
    try:
        return instances.select_list_rows(account, **filters), None
    except Invalid as error:
        return instances.select_list_rows(account).where(false()), error.message
