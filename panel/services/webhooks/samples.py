"""Made-up events, by which customers try their receivers. They are in no history: a test delivery has no other."""

from panel.models import Event
from panel.schemas.webhooks import INSTANCE, KINDS

NOWHERE = "00000000-0000-4000-8000-000000000000"
"""The id of everything that a made-up event tells of."""

MACHINE = {
    "id": NOWHERE,
    "name": "test",
    "hostname": "test.example.com",
    "display_name": "Test",
    "status": "running",
    "location": {"id": NOWHERE, "name": "test"},
}
CLUSTER = {"id": NOWHERE, "name": "test", "slug": "test"}


def event(delivery):
    """The event that a test delivery tells of. It has the delivery's id and time and must not be stored."""
    resource = KINDS[delivery.event_kind].resource
    told = {} if resource == INSTANCE else {"severity": "info", "message": "This is a test. Nothing has happened."}
    return Event(
        id=delivery.id,
        account_id=delivery.account_id,
        kind=delivery.event_kind,
        resource_type=resource,
        resource_id=NOWHERE,
        data={"test": True},
        snapshot=MACHINE if resource == INSTANCE else CLUSTER,
        created_at=delivery.created_at,
        **told,
    )
