"""Sample events for test deliveries. They are not stored."""

from sqlalchemy import Row

from panel.models import Event, WebhookDelivery
from panel.schemas.webhooks import EVENT_KINDS, INSTANCE_RESOURCE

SAMPLE_ID = "00000000-0000-4000-8000-000000000000"
"""The id of every resource in a sample event."""

SAMPLE_INSTANCE = {
    "id": SAMPLE_ID,
    "name": "test",
    "hostname": "test.example.com",
    "display_name": "Test",
    "status": "running",
    "location": {"id": SAMPLE_ID, "name": "test"},
}
SAMPLE_CLUSTER = {"id": SAMPLE_ID, "name": "test", "slug": "test"}


def make_sample_event(delivery: WebhookDelivery | Row) -> Event:
    """Return the event of a test delivery, with the delivery's id and time. It must not be added to the session."""
    resource = EVENT_KINDS[delivery.event_kind].resource
    extra = (
        {}
        if resource == INSTANCE_RESOURCE
        else {"severity": "info", "message": "This is a test. Nothing has happened."}
    )
    return Event(
        id=delivery.id,
        account_id=delivery.account_id,
        kind=delivery.event_kind,
        resource_type=resource,
        resource_id=SAMPLE_ID,
        data={"test": True},
        snapshot=SAMPLE_INSTANCE if resource == INSTANCE_RESOURCE else SAMPLE_CLUSTER,
        created_at=delivery.created_at,
        **extra,
    )
