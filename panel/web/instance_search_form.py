"""Lists of instances as their search field asks for them, on both sides of the panel."""

from sqlalchemy import false

from panel.core.errors import Invalid
from panel.services import instances


def search_or_empty(account=None, **wanted):
    """The list, and what is wrong with the search or None. A search that cannot be understood finds nothing, and says
    why."""
    try:
        return instances.listing(account, **wanted), None
    except Invalid as error:
        return instances.listing(account).where(false()), error.message
