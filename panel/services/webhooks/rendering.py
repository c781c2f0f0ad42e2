"""Deliveries as text for people, without secrets and signatures."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from panel.core.messages import from_stored
from panel.models import WebhookDelivery, WebhookSubscription
from panel.services.webhooks import samples, signing

HIDDEN_TEXT = "•••"
NEXT_ATTEMPT_TEXT = "(another one for each attempt)"


def render_request(subscription: WebhookSubscription, delivery: WebhookDelivery) -> dict[str, Any]:
    """Return the request line, the headers, and the body, indented.

    The signature and the values of the URL's query are hidden, because both may be credentials.
    """
    event = delivery.event or samples.make_sample_event(delivery)
    body = signing.make_body(event)
    attempt_id = delivery.tries[-1]["id"] if delivery.tries else NEXT_ATTEMPT_TEXT
    headers = signing.make_headers(event, body, attempt_id=attempt_id, subscription_id=subscription.id, secret="")
    return {
        "line": f"POST {redact_url(subscription.url)}",
        "headers": {"Host": urlsplit(subscription.url).netloc, **headers, "X-Signature-256": f"sha256={HIDDEN_TEXT}"},
        "body": orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode(),
    }


def redact_url(url: str) -> str:
    """Return path and query of a URL, with the values of the query hidden."""
    parts = urlsplit(url)
    named = [f"{name}={HIDDEN_TEXT}" if value else name for name, value in parse_qsl(parts.query, True)]
    return (parts.path or "/") + (f"?{'&'.join(named)}" if named else "")


def render_attempts(subscription: WebhookSubscription, delivery: WebhookDelivery) -> list[dict[str, Any]]:
    """Return the attempts, newest first. The secret is hidden in answers that contain it."""
    return [render_attempt(subscription.secret, attempt) for attempt in reversed(delivery.tries)]


def render_attempt(secret: str, attempt: Mapping[str, Any]) -> dict[str, Any]:
    body = (attempt["body"] or "").replace(secret, HIDDEN_TEXT)
    at = datetime.fromisoformat(attempt["at"])
    return {**attempt, "at": at, "error": from_stored(attempt["error"]), "body": body}
