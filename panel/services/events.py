"""The event history of resources."""

from sqlalchemy import select

from panel.models import Event


def listing(account=None, *, resource_id=None):
    """Select events, newest first; with an account, only those of its resources."""
    query = select(Event).order_by(Event.id.desc())
    if account:
        query = query.where(account.visible_rows(Event))
    return query.where(Event.resource_id == resource_id) if resource_id else query
