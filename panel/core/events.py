"""Events: recorded in the transaction that causes them, and published to webhooks after its commit."""

from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Select, bindparam, select

from panel.core import clock, jobs
from panel.core.db import generate_id, on_commit, session
from panel.models import Event, Instance, WebhookSubscription

POWER_STATUS = {"on": "running", "off": "stopped"}


def record(
    kind: str,
    resource_type: str,
    resource: Any,
    *,
    actor: str,
    severity: str | None = None,
    message: str | None = None,
    **data: Any,
) -> Event:
    """Record one event of a resource and its owner. `severity` (`info`, `warning`, `error`) and `message` are given for
    events of Kubernetes clusters."""
    event = Event(
        id=generate_id(),
        kind=kind,
        resource_type=resource_type,
        resource_id=resource.id,
        account_id=getattr(resource, "account_id", None),
        actor=actor,
        data=data,
        snapshot=PAYLOAD_BUILDERS[resource_type](resource) if resource_type in PAYLOAD_BUILDERS else None,
        severity=severity,
        message=message,
        created_at=clock.now(),
    )
    if resource_type in PAYLOAD_BUILDERS and has_subscribers(event.account_id):
        on_commit(notify_dispatcher)
    else:
        event.fanned_out_at = event.created_at
    session.add(event)
    return event


subscriber_cache: WeakKeyDictionary = WeakKeyDictionary()
"""For each open transaction, whether an account has subscriptions, so that a transaction with thousands of events
queries once for each account."""


def has_subscribers(account_id: str | None) -> bool:
    transaction = session().get_transaction() or session().begin()
    cached = subscriber_cache.setdefault(transaction, {})
    if account_id not in cached:
        cached[account_id] = session.connection().scalar(select_subscriber(), {"account_id": account_id}) is not None
    return cached[account_id]


@cache
def select_subscriber() -> Select[str]:
    is_owned = WebhookSubscription.account_id == bindparam("account_id")
    return select(WebhookSubscription.id).where(is_owned, WebhookSubscription.enabled).limit(1)


def notify_dispatcher() -> None:
    """Ask a worker to fan out new events to deliveries. If the message is lost, the scheduler repeats it."""
    jobs.enqueue_call("worker.webhooks.fan_out")


def build_instance_payload(row: Instance) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "hostname": row.hostname,
        "display_name": row.display_name,
        "status": POWER_STATUS[row.power],
        "location": {"id": row.group_id, "name": row.location_name},
    }


def build_cluster_payload(row: Any) -> dict[str, Any]:
    return {"id": row.id, "name": row.name, "slug": row.slug}


PAYLOAD_BUILDERS = {"instance": build_instance_payload, "kubernetes_cluster": build_cluster_payload}
"""Builders of a resource's payload, by resource type (DLV-13). Other types have no webhooks."""
