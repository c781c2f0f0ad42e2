"""Deliveries for people: what was sent and what was answered, without what would let a reader sign or sign in."""

from datetime import datetime
from urllib.parse import parse_qsl, urlsplit

import orjson

from panel.services.webhooks import samples, signing

HIDDEN_TEXT = "•••"
NEXT_ATTEMPT_TEXT = "(another one for each attempt)"


def render_request(subscription, delivery):
    """The request line, the headers, and the body, broken into lines. The signature and the values in the address's
    query are hidden: both may open something."""
    event = delivery.event or samples.make_sample_event(delivery)
    body = signing.make_body(event)
    attempt = delivery.tries[-1]["id"] if delivery.tries else NEXT_ATTEMPT_TEXT
    headers = signing.make_headers(event, body, attempt_id=attempt, subscription_id=subscription.id, secret="")
    return {
        "line": f"POST {redact_url(subscription.url)}",
        "headers": {"Host": urlsplit(subscription.url).netloc, **headers, "X-Signature-256": f"sha256={HIDDEN_TEXT}"},
        "body": orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode(),
    }


def redact_url(url):
    """Path and query of an address, the values of the query hidden."""
    parts = urlsplit(url)
    named = [f"{name}={HIDDEN_TEXT}" if value else name for name, value in parse_qsl(parts.query, True)]
    return (parts.path or "/") + (f"?{'&'.join(named)}" if named else "")


def render_attempts(subscription, delivery):
    """The attempts, newest first. A receiver that answers with the secret does not get it onto the page."""
    return [render_attempt(subscription.secret, each) for each in reversed(delivery.tries)]


def render_attempt(secret, attempt):
    body = (attempt["body"] or "").replace(secret, HIDDEN_TEXT)
    return {**attempt, "at": datetime.fromisoformat(attempt["at"]), "body": body}
