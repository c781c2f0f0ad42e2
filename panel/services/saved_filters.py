"""Filters of lists that a person saved, to open the list with them again."""

from urllib.parse import parse_qsl, urlencode

from sqlalchemy import Select, func, select

from panel.core.db import lock_row, session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, SavedFilter
from panel.schemas.constants import MAX_FILTER_PARAMETERS

MAX_SAVED_FILTERS = 20
"""Filters of one person, on all pages together."""
UNSAVED_PARAMETERS = ("page", "per_page", "format")


def listing(person: Account, page: str) -> Select[SavedFilter]:
    """Select the person's filters of one page, by name."""
    query = select(SavedFilter).where(SavedFilter.account_id == person.id, SavedFilter.page == page)
    return query.order_by(SavedFilter.name)


def get(filter_id: str, person: Account) -> SavedFilter:
    row = session.scalar(select(SavedFilter).where(SavedFilter.id == filter_id, SavedFilter.account_id == person.id))
    if row is None:
        raise NotFound(message("No such filter."))
    return row


def save(person: Account, *, page: str, name: str, query: str) -> SavedFilter:
    """Save the filter. One with the same name on the same page is replaced."""
    text = clean_query(query)
    if not text:
        raise Invalid(message("Filter or sort the list first."), query=message("Filter or sort the list first."))
    lock_row(Account, person.id)  # serializes the count
    row = session.scalar(listing(person, page).where(SavedFilter.name == name))
    if row is None:
        ensure_space(person)
        row = SavedFilter(account_id=person.id, page=page, name=name)
        session.add(row)
    row.query = text
    session.flush()
    return row


def ensure_space(person: Account) -> None:
    count = session.scalars(select(func.count()).where(SavedFilter.account_id == person.id)).one()
    if count >= MAX_SAVED_FILTERS:
        raise Invalid(message("You can save at most {maximum} filters. Remove one first.", maximum=MAX_SAVED_FILTERS))


def clean_query(query: str) -> str:
    """Return the query string without empty values and without the position in the list."""
    parameters = parse_qsl(query.removeprefix("?"), max_num_fields=MAX_FILTER_PARAMETERS)
    return urlencode([(name, value) for name, value in parameters if name not in UNSAVED_PARAMETERS])


def delete(row: SavedFilter) -> None:
    session.delete(row)
    session.flush()
