"""Finding one row by its id, and keeping names unique."""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Invalid, NotFound


def get_or_404(model, row_id, sentence, field=None):
    """The row. An unknown id from a body is the fault of its `field`; one from the path is simply not there."""
    row = session.get(model, row_id)
    if row is None:
        raise Invalid(sentence, **{field: sentence}) if field else NotFound(sentence)
    return row


def get_all_or_422(model, ids, sentence, field):
    """The rows of a list of ids, each of which must exist."""
    found = session.scalars(select(model).where(model.id.in_(ids))).all()
    if len(found) < len(set(ids)):
        raise Invalid(sentence, **{field: sentence})
    return list(found)


def ensure_unique_name(model, name, *, exclude=None, **within):
    """Raises when another row than `but` has the name; `within` says among which rows it must be unique."""
    query = select(model.id).filter_by(name=name, **within)
    if session.scalar(query.where(model.id != exclude.id) if exclude else query):
        raise Invalid("This name is taken.", name="This name is taken.")


def update_fields(row, changes):
    for field, value in changes.items():
        setattr(row, field, value)
    session.flush()
    return row
