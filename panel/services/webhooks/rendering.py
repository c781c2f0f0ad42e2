"""Deliveries for people: what was sent and what was answered, without what would let a reader sign or sign in."""

from datetime import datetime
from urllib.parse import parse_qsl, urlsplit

import orjson

from panel.services.webhooks import samples, signing

HIDDEN = "•••"
TO_COME = "(another one for each attempt)"


def request(subscription, delivery):
    """The request line, the headers, and the body, broken into lines. The signature and the values in the address's
    query are hidden: both may open something."""
    event = delivery.event or samples.event(delivery)
    body = signing.body(event)
    attempt = delivery.tries[-1]["id"] if delivery.tries else TO_COME
    headers = signing.headers(event, body, attempt_id=attempt, subscription_id=subscription.id, secret="")
    return {
        "line": f"POST {target(subscription.url)}",
        "headers": {"Host": urlsplit(subscription.url).netloc, **headers, "X-Signature-256": f"sha256={HIDDEN}"},
        "body": orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode(),
    }


def target(url):
    """Path and query of an address, the values of the query hidden."""
    parts = urlsplit(url)
    named = [f"{name}={HIDDEN}" if value else name for name, value in parse_qsl(parts.query, True)]
    return (parts.path or "/") + (f"?{'&'.join(named)}" if named else "")


def answers(subscription, delivery):
    """The attempts, newest first. A receiver that answers with the secret does not get it onto the page."""
    return [answer(subscription.secret, each) for each in reversed(delivery.tries)]


def answer(secret, attempt):
    body = (attempt["body"] or "").replace(secret, HIDDEN)
    return {**attempt, "at": datetime.fromisoformat(attempt["at"]), "body": body}
