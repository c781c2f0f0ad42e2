"""What a receiver gets: the body as bytes, and headers that prove its origin."""

import hashlib
import hmac
from datetime import UTC

import orjson
from sqlalchemy import Row

from panel.models import Event
from panel.schemas.webhooks import CLUSTER_RESOURCE

USER_AGENT = "Hypervisor-Webhook/1.0"


def make_body(event: Event | Row) -> bytes:
    """Return the bytes that are signed and sent."""
    facts = {
        "id": event.id,
        "kind": event.kind,
        "created_at": event.created_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": event.data,
    }
    if event.resource_type == CLUSTER_RESOURCE:
        facts |= {"severity": event.severity, "message": event.message}
    return orjson.dumps(
        {"event": facts, "cluster" if event.resource_type == CLUSTER_RESOURCE else "instance": event.snapshot}
    )


def make_headers(
    event: Event | Row, payload: bytes, *, attempt_id: str, subscription_id: str, secret: str
) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "X-Hypervisor-Delivery": attempt_id,
        "X-Hypervisor-Event": event.kind,
        "X-Hypervisor-Event-Id": event.id,
        "X-Hypervisor-Subscription": subscription_id,
        "X-Signature-256": sign_payload(payload, secret),
    }


def sign_payload(payload: bytes, secret: str) -> str:
    return "sha256=" + hmac.new(secret.encode(), payload, hashlib.sha256).hexdigest()
