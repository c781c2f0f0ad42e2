"""The messages that notification channels get about alerts."""

from typing import Any

import orjson

from panel.core import clock
from panel.core.formatting import format_transfer
from panel.core.messages import Message, message
from panel.models import AlertEvent, AlertRule
from panel.schemas.alert_rules import METRIC_ALIASES, METRIC_LABELS, METRIC_UNITS
from panel.services import brands
from panel.services.webhooks import signing

TELEGRAM_URL = "https://api.telegram.org/bot{token}/sendMessage"
HEADLINES = {"firing": "Alert", "resolved": "Resolved", "reminder": "Still firing"}
SIGNS = {"gt": ">", "lt": "<", "gte": "≥", "lte": "≤", "eq": "="}
TEST_TEXT = "Test message: this notification channel works."
SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def describe_condition(rule: AlertRule) -> Message:
    """Return the condition with the label of the metric, which the recipient's language has."""
    comparison = f"{SIGNS[rule.operator]} {format_value(rule.metric, rule.threshold)}"
    return message("{metric} {comparison}", metric=get_metric_label(rule.metric), comparison=comparison)


def get_metric_label(metric: str) -> Message:
    return METRIC_LABELS[METRIC_ALIASES.get(metric, metric)]


def format_value(metric: str, value: float) -> str:
    """Return a value of the metric with its unit, as an English number with up to four digits that count."""
    unit = METRIC_UNITS[metric]
    if unit == "B/s":
        return f"{format_transfer(value)}/s"
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.12g} {unit}"


def build_text(event: AlertEvent | None, rule: AlertRule | None) -> str:
    """Return the message as plain text. Without an event it is a test."""
    if event is None or rule is None:
        return TEST_TEXT
    value = "" if event.value is None else f", now {format_value(rule.metric, event.value)}"
    url = brands.get_of_account(rule.account_id).url + build_path(rule)
    headline = f"{HEADLINES[event.kind]}: {rule.name}"
    return f"{headline}\n{event.resource_name}: {describe_condition(rule)}{value}\n{url}"


def build_path(rule: AlertRule) -> str:
    return f"/alert-rules/{rule.id}"


def build_mail_facts(event: AlertEvent | None, rule: AlertRule | None) -> dict[str, Any]:
    if event is None or rule is None:
        return {"kind": "test", "link": "/notification-channels"}
    return {
        "kind": event.kind,
        "name": rule.name,
        "resource": event.resource_name,
        "condition": describe_condition(rule),
        "value": "" if event.value is None else format_value(rule.metric, event.value),
        "link": build_path(rule),
    }


def get_url(type: str, config: dict[str, Any]) -> str:
    if type == "telegram":
        return TELEGRAM_URL.format(token=config["bot_token"])
    return config["url"] if type == "webhook" else config["webhook_url"]


def build_request(
    type: str, config: dict[str, Any], notification_id: str, event: AlertEvent | None, rule: AlertRule | None
) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a request to the channel."""
    text = build_text(event, rule)
    if type == "slack":
        body: dict[str, Any] = {"text": text.translate(SLACK_ESCAPES)}
    elif type == "discord":
        body = {"content": text[:2000], "allowed_mentions": {"parse": []}}
    elif type == "telegram":
        body = {"chat_id": config["chat_id"], "text": text[:4096]}
    else:
        body = build_webhook_body(notification_id, event, rule, text)
    payload = orjson.dumps(body)
    headers = {
        **config.get("headers", {}),
        "Content-Type": "application/json",
        "User-Agent": signing.USER_AGENT,
    }
    if config.get("secret"):
        headers["X-Signature-256"] = signing.sign_payload(payload, config["secret"])
    return payload, headers


def build_webhook_body(
    notification_id: str, event: AlertEvent | None, rule: AlertRule | None, text: str
) -> dict[str, Any]:
    if event is None or rule is None:
        return {"id": notification_id, "kind": "test", "at": clock.now().isoformat(), "text": text}
    return {
        "id": notification_id,
        "kind": event.kind,
        "at": event.created_at.isoformat(),
        "text": text,
        "alert_rule": {
            "id": rule.id,
            "name": rule.name,
            "metric": rule.metric,
            "operator": rule.operator,
            "threshold": rule.threshold,
        },
        "resource": {"type": rule.resource_type, "id": event.resource_id, "name": event.resource_name},
        "value": event.value,
    }
