"""What happened, recorded in the transaction in which it happened, and passed on to webhooks after it."""

from functools import cache
from weakref import WeakKeyDictionary

from sqlalchemy import bindparam, select

from panel.core import clock, jobs
from panel.core.db import new_id, on_commit, session
from panel.models import Event, WebhookSubscription

POWER = {"on": "running", "off": "stopped"}


def record(kind, resource_type, resource, *, actor, severity=None, message=None, **data):
    """Adds one event to the history of a resource and its owner. `severity` (`info`, `warning`, `error`) and `message`
    are told of what happens to Kubernetes clusters."""
    event = Event(
        id=new_id(),
        kind=kind,
        resource_type=resource_type,
        resource_id=resource.id,
        account_id=getattr(resource, "account_id", None),
        actor=actor,
        data=data,
        snapshot=SHOWN[resource_type](resource) if resource_type in SHOWN else None,
        severity=severity,
        message=message,
        created_at=clock.now(),
    )
    if resource_type in SHOWN and somebody_listens(event.account_id):
        on_commit(ring)
    else:
        event.spread_at = event.created_at
    session.add(event)
    return event


known: WeakKeyDictionary = WeakKeyDictionary()
"""For each transaction that goes on, which accounts it has asked for: one that records thousands asks once."""


def somebody_listens(account_id):
    transaction = session().get_transaction() or session().begin()
    listeners = known.setdefault(transaction, {})
    if account_id not in listeners:
        listeners[account_id] = session.connection().scalar(listener(), {"account_id": account_id}) is not None
    return listeners[account_id]


@cache
def listener():
    mine = WebhookSubscription.account_id == bindparam("account_id")
    return select(WebhookSubscription.id).where(mine, WebhookSubscription.enabled).limit(1)


def ring():
    """Asks a worker to make deliveries of what happened. Should nobody hear it, the schedule asks again."""
    jobs.call("worker.webhooks.spread")


def instance(row):
    return {
        "id": row.id,
        "name": row.name,
        "hostname": row.hostname,
        "display_name": row.display_name,
        "status": POWER[row.power],
        "location": {"id": row.group_id, "name": row.location_name},
    }


def cluster(row):
    return {"id": row.id, "name": row.name, "slug": row.slug}


SHOWN = {"instance": instance, "kubernetes_cluster": cluster}
"""How payloads show a resource (specification 6.3). Webhooks are not told of others."""
