"""Webhook subscriptions of an account, and their deliveries."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, Text, cast, func, or_, select
from sqlalchemy.orm import defer, joinedload

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import from_stored, message
from panel.models import Account, WebhookDelivery, WebhookSubscription
from panel.models.webhooks import OPEN_DELIVERY_STATUSES
from panel.services.access import Access
from panel.services.crud import update_fields
from panel.services.webhooks import delivery_queue, url_policy

MAX_SUBSCRIPTIONS = 20
"""Maximum number of subscriptions of an account (WHK-50)."""
SUBSCRIPTION_LIMIT_MESSAGE = message(
    "An account has at most {maximum} webhook subscriptions. Delete one that you do not need.",
    maximum=MAX_SUBSCRIPTIONS,
)
FOREIGN_CLUSTER_MESSAGE = message("There is no such cluster in this account: {clusters}.")


class Attempt(NamedTuple):
    id: str
    """Sent to the receiver as X-Hypervisor-Delivery."""
    at: datetime
    response_code: int | None
    duration_ms: int
    error: str | None

    @property
    def status(self) -> str:
        return "failed" if self.error else "delivered"


def listing(access: Access | Account) -> Select[WebhookSubscription]:
    query = select(WebhookSubscription).where(access.visible_rows(WebhookSubscription))
    return query.order_by(WebhookSubscription.id.desc())


def list_all(user_id: str | None = None, search: str | None = None) -> Select[WebhookSubscription]:
    """Select the subscriptions of all accounts, newest first."""
    query = select(WebhookSubscription).order_by(WebhookSubscription.id.desc())
    if user_id:
        query = query.where(WebhookSubscription.account_id == user_id)
    if search:
        columns = (WebhookSubscription.name, WebhookSubscription.url)
        query = query.where(or_(*(column.icontains(search, autoescape=True) for column in columns)))
    return query


def get(subscription_id: str, access: Access | Account | None = None) -> WebhookSubscription:
    """Return the subscription; with `access`, one of its own."""
    query = (listing(access) if access else list_all()).where(WebhookSubscription.id == subscription_id)
    subscription = session.scalar(query.execution_options(populate_existing=True))  # dispatchers update the counters
    if subscription is None:
        raise NotFound(message("No such webhook subscription."))
    return subscription


def create(
    access: Access | Account, *, url: str, cluster_filter: list[str] | None = None, **facts: Any
) -> WebhookSubscription:
    """Create a subscription. Raise Invalid for too many of them, or if the URL or the clusters are refused."""
    url_policy.ensure_allowed(url)
    ensure_own_clusters(access, cluster_filter)
    session.scalar(select(Account.id).where(Account.id == access.id).with_for_update())  # serializes the count
    count = select(func.count()).where(WebhookSubscription.account_id == access.id)
    if session.scalars(count).one() >= MAX_SUBSCRIPTIONS:
        raise Invalid(SUBSCRIPTION_LIMIT_MESSAGE)
    row = WebhookSubscription(account_id=access.id, url=url, cluster_filter=cluster_filter, **facts)
    session.add(row)
    session.flush()
    return row


def update(subscription: WebhookSubscription, access: Access | Account, **changes: Any) -> WebhookSubscription:
    """Change the given fields; others stay, the secret too.

    `enabled=True` resets the failures, even if it was enabled.
    """
    if "url" in changes:
        url_policy.ensure_allowed(changes["url"])
    ensure_own_clusters(access, changes.get("cluster_filter"))
    if changes.get("enabled"):
        changes |= {"consecutive_failures": 0}
    if "enabled" in changes:
        changes |= {"disabled_at": None}
    return update_fields(subscription, changes)


def delete(subscription: WebhookSubscription) -> None:
    """Delete the subscription and its deliveries. Pending deliveries are never sent."""
    session.delete(subscription)
    session.flush()


def ensure_own_clusters(access: Access | Account, cluster_ids: Iterable[str] | None) -> None:
    """Raise Invalid for clusters that are not the account's. The message does not tell whether they exist."""
    foreign = set(cluster_ids or ()) - get_cluster_ids(access)
    if foreign:
        sentence = FOREIGN_CLUSTER_MESSAGE.format(clusters=", ".join(sorted(foreign)[:3]))
        raise Invalid(sentence, cluster_filter=sentence)


def get_cluster_ids(access: Access | Account) -> set[str]:
    """Return ids of the account's Kubernetes clusters. The platform has none so far."""
    return set()


def select_deliveries(
    subscription: WebhookSubscription, status: str | None = None, attempt: str | None = None
) -> Select[WebhookDelivery]:
    """Select deliveries, newest first, without the attempts, whose answers may be long.

    `attempt` is the id of an attempt.
    """
    query = select(WebhookDelivery).where(WebhookDelivery.subscription_id == subscription.id)
    query = query.where(WebhookDelivery.status == status) if status else query
    query = query.where(cast(WebhookDelivery.tries, Text).contains(f'"{attempt}"')) if attempt else query
    return query.order_by(WebhookDelivery.id.desc()).options(defer(WebhookDelivery.tries))


def get_delivery(subscription: WebhookSubscription, delivery_id: str) -> WebhookDelivery:
    """Return the delivery with its attempts and its event."""
    query = select(WebhookDelivery).where(
        WebhookDelivery.subscription_id == subscription.id, WebhookDelivery.id == delivery_id
    )
    with_event = query.options(joinedload(WebhookDelivery.event)).execution_options(populate_existing=True)
    delivery = session.scalar(with_event)
    if delivery is None:
        raise NotFound(message("No such delivery."))
    return delivery


def list_attempts(delivery: WebhookDelivery) -> list[Attempt]:
    """Return the attempts of a delivery that are recorded, newest first."""
    return [
        Attempt(
            row["id"],
            datetime.fromisoformat(row["at"]),
            row["code"],
            row["duration_ms"],
            from_stored(row["error"]),
        )
        for row in reversed(delivery.tries)
    ]


def redelivery_error(subscription: WebhookSubscription, delivery: WebhookDelivery) -> str | None:
    """Return why a delivery cannot be sent again, as a sentence, or None."""
    if delivery.status in OPEN_DELIVERY_STATUSES:
        return message("It is still in progress.")
    return None if subscription.enabled or delivery.test else message("The subscription is off. Enable it first.")


def redeliver(subscription: WebhookSubscription, delivery: WebhookDelivery) -> WebhookDelivery:
    """Send a finished delivery once more, with a full set of attempts. The event's id is the same."""
    reason = redelivery_error(subscription, delivery)
    if reason:
        raise Conflict(reason)
    update_fields(delivery, {"status": "pending", "attempts": 0, "due_at": clock.now()})
    delivery_queue.notify_dispatcher()
    return delivery


def send_test(subscription: WebhookSubscription, kind: str) -> WebhookDelivery:
    """Send a sample event of the kind, even if the subscription is disabled, so that its owner can test it first."""
    delivery = WebhookDelivery(
        account_id=subscription.account_id, subscription_id=subscription.id, event_kind=kind, test=True
    )
    session.add(delivery)
    session.flush()
    delivery_queue.notify_dispatcher()
    return delivery
