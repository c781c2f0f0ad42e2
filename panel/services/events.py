"""The event history of resources."""

from sqlalchemy import Select, select

from panel.models import Account, Event
from panel.services.access import Access

ALERT_EVENT = "alert"
"""The resource type of events of alerts, which only those see who may see alert rules."""


def listing(
    account: Access | Account | None = None, *, resource_id: str | None = None, with_alert_events: bool = True
) -> Select[Event]:
    """Select events, newest first; with an account, only those of its resources. Those of alerts are left out without
    `with_alert_events`, and for members who may not see alert rules."""
    query = select(Event).order_by(Event.id.desc())
    if account:
        query = query.where(account.visible_rows(Event))
    is_hidden = isinstance(account, Access) and not account.has_permission("monitoring.view")
    if is_hidden or not with_alert_events:
        query = query.where(Event.resource_type != ALERT_EVENT)
    return query.where(Event.resource_id == resource_id) if resource_id else query
