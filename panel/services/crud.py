"""Finding rows by id, unique names, and updating fields."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import select

from panel.core.db import ModelRow, session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message


def get_or_404(model: type[ModelRow], row_id: str | None, sentence: str, error_field: str | None = None) -> ModelRow:
    """Return the row. Raise Invalid for `field` when the id came from a body, NotFound when it came from the path."""
    row = session.get(model, row_id) if row_id else None
    if row is None:
        raise Invalid(sentence, **{error_field: sentence}) if error_field else NotFound(sentence)
    return row


def get_all_or_422(model: Any, ids: Collection[str], sentence: str, error_field: str) -> list[Any]:
    """Return the rows with these ids. Raise Invalid for `field` when one does not exist."""
    rows = session.scalars(select(model).where(model.id.in_(ids))).all()
    if len(rows) < len(set(ids)):
        raise Invalid(sentence, **{error_field: sentence})
    return list(rows)


def ensure_unique_name(model: Any, name: str, *, exclude: Any = None, **within: Any) -> None:
    """Raise when another row than `exclude` has the name. `within` limits the rows among which it must be unique."""
    query = select(model.id).filter_by(name=name, **within)
    if session.scalar(query.where(model.id != exclude.id) if exclude else query):
        raise Invalid(message("This name is taken."), name=message("This name is taken."))


def update_fields(row: ModelRow, changes: dict[str, Any]) -> ModelRow:
    for field, value in changes.items():
        setattr(row, field, value)
    session.flush()
    return row
