"""What happened, recorded in the transaction in which it happened."""

from panel.db import session
from panel.models import Event


def record(kind, resource_type, resource, *, actor, **data):
    """Adds one event to the history of a resource and its owner."""
    event = Event(
        kind=kind,
        resource_type=resource_type,
        resource_id=resource.id,
        account_id=getattr(resource, "account_id", None),
        actor=actor,
        data=data,
    )
    session.add(event)
    return event
