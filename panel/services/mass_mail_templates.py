"""Templates of mass mails."""

from typing import Any

from sqlalchemy import Select, select

from panel.core.db import session
from panel.core.messages import message
from panel.models import MassMailTemplate
from panel.services import placeholders
from panel.services.crud import ensure_unique_name, get_or_404, update_fields
from panel.services.mass_mails import PLACEHOLDERS


def listing() -> Select[MassMailTemplate]:
    return select(MassMailTemplate).order_by(MassMailTemplate.name)


def select_names() -> Select[str, str]:
    """Select ids and names of all templates, for forms."""
    return select(MassMailTemplate.id, MassMailTemplate.name).order_by(MassMailTemplate.name)


def get(template_id: str) -> MassMailTemplate:
    return get_or_404(MassMailTemplate, template_id, message("No such template."))


def create(*, name: str, subject: str, text: str) -> MassMailTemplate:
    """Create a template. Raise Invalid if the name is taken, or for a placeholder that does not exist."""
    row = MassMailTemplate(name=name, subject=subject, text=text)
    ensure_valid(row, {"name": name, "subject": subject, "text": text})
    session.add(row)
    session.flush()
    return row


def update(row: MassMailTemplate, **changes: Any) -> MassMailTemplate:
    ensure_valid(row, changes)
    return update_fields(row, changes)


def ensure_valid(row: MassMailTemplate, values: dict[str, Any]) -> None:
    if "name" in values:
        ensure_unique_name(MassMailTemplate, values["name"], exclude=row if row.id else None)
    for field in ("subject", "text"):
        if field in values:
            placeholders.ensure_valid(field, values[field], PLACEHOLDERS)


def delete(row: MassMailTemplate) -> None:
    session.delete(row)
    session.flush()
