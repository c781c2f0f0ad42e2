"""Webhook subscriptions of an account, and what became of their deliveries (specification 2.4, 4.6)."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Text, cast, func, or_, select
from sqlalchemy.orm import defer, joinedload

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.models import Account, WebhookDelivery, WebhookSubscription
from panel.models.webhooks import OPEN_DELIVERY_STATUSES
from panel.services.crud import update_fields
from panel.services.webhooks import delivery_queue, url_policy

MAX_SUBSCRIPTIONS = 20
"""Subscriptions that an account may have (specification 8)."""
SUBSCRIPTION_LIMIT_MESSAGE = (
    f"An account has at most {MAX_SUBSCRIPTIONS} webhook subscriptions. Delete one that you do not need."
)
FOREIGN_CLUSTER_MESSAGE = "There is no such cluster in this account: {}."


class Attempt(NamedTuple):
    id: str
    """What the receiver sees as X-Hypervisor-Delivery."""
    at: datetime
    response_code: int | None
    duration_ms: int
    error: str | None

    @property
    def status(self):
        return "failed" if self.error else "delivered"


def listing(access):
    found = select(WebhookSubscription).where(access.visible_rows(WebhookSubscription))
    return found.order_by(WebhookSubscription.id.desc())


def list_all(user_id=None, search=None):
    """Select the subscriptions of all accounts, newest first."""
    found = select(WebhookSubscription).order_by(WebhookSubscription.id.desc())
    if user_id:
        found = found.where(WebhookSubscription.account_id == user_id)
    if search:
        words = (WebhookSubscription.name, WebhookSubscription.url)
        found = found.where(or_(*(word.icontains(search, autoescape=True) for word in words)))
    return found


def get(subscription_id, access=None):
    """Return the subscription; with `access`, one of its own."""
    query = (listing(access) if access else list_all()).where(WebhookSubscription.id == subscription_id)
    subscription = session.scalar(query.execution_options(populate_existing=True))  # senders count beside us
    if subscription is None:
        raise NotFound("No such webhook subscription.")
    return subscription


def create(access, *, url, cluster_filter=None, **facts):
    """Raises Invalid when the account has as many as it may, or when the address or the clusters are refused."""
    url_policy.ensure_allowed(url)
    ensure_own_clusters(access, cluster_filter)
    session.scalar(select(Account.id).where(Account.id == access.id).with_for_update())  # two at once are counted
    if session.scalar(select(func.count()).where(WebhookSubscription.account_id == access.id)) >= MAX_SUBSCRIPTIONS:
        raise Invalid(SUBSCRIPTION_LIMIT_MESSAGE)
    row = WebhookSubscription(account_id=access.id, url=url, cluster_filter=cluster_filter, **facts)
    session.add(row)
    session.flush()
    return row


def update(subscription, access, **changes):
    """What is not named stays, the secret too. To be switched on forgets past failures, whether it was on or off."""
    if "url" in changes:
        url_policy.ensure_allowed(changes["url"])
    ensure_own_clusters(access, changes.get("cluster_filter"))
    if changes.get("enabled"):
        changes |= {"consecutive_failures": 0}
    if "enabled" in changes:
        changes |= {"disabled_at": None}
    return update_fields(subscription, changes)


def delete(subscription):
    """Its deliveries go with it: what was still under way is never sent."""
    session.delete(subscription)
    session.flush()


def ensure_own_clusters(access, cluster_ids):
    """Only clusters of one's own can be named, and others are told apart from none in no way."""
    foreign = set(cluster_ids or ()) - get_cluster_ids(access)
    if foreign:
        sentence = FOREIGN_CLUSTER_MESSAGE.format(", ".join(sorted(foreign)[:3]))
        raise Invalid(sentence, cluster_filter=sentence)


def get_cluster_ids(access):
    """Ids of the account's Kubernetes clusters. The platform has none so far."""
    return set()


def select_deliveries(subscription, status=None, attempt=None):
    """Newest first, without the bodies of answers, which may be long. `attempt` is the id of one of the attempts."""
    found = select(WebhookDelivery).where(WebhookDelivery.subscription_id == subscription.id)
    found = found.where(WebhookDelivery.status == status) if status else found
    found = found.where(cast(WebhookDelivery.tries, Text).contains(f'"{attempt}"')) if attempt else found
    return found.order_by(WebhookDelivery.id.desc()).options(defer(WebhookDelivery.tries))


def get_delivery(subscription, delivery_id):
    """With its attempts and its event."""
    query = select(WebhookDelivery).where(
        WebhookDelivery.subscription_id == subscription.id, WebhookDelivery.id == delivery_id
    )
    whole = query.options(joinedload(WebhookDelivery.event)).execution_options(populate_existing=True)
    found = session.scalar(whole)
    if found is None:
        raise NotFound("No such delivery.")
    return found


def list_attempts(delivery):
    """Return the attempts of a delivery that are recorded, newest first."""
    return [
        Attempt(each["id"], datetime.fromisoformat(each["at"]), each["code"], each["duration_ms"], each["error"])
        for each in reversed(delivery.tries)
    ]


def redelivery_error(subscription, delivery):
    """Why a delivery cannot be sent again, in a sentence; None if it can."""
    if delivery.status in OPEN_DELIVERY_STATUSES:
        return "It is still under way."
    return None if subscription.enabled or delivery.test else "The subscription is off. Enable it first."


def redeliver(subscription, delivery):
    """Sends a delivery that is over once more, with all its attempts. The receiver knows it by the event's id."""
    why = redelivery_error(subscription, delivery)
    if why:
        raise Conflict(why)
    update_fields(delivery, {"status": "pending", "attempts": 0, "due_at": clock.now()})
    delivery_queue.notify_dispatcher()
    return delivery


def send_test(subscription, kind):
    """Sends a made-up event of the kind, also while the subscription is off: to see whether it may be switched on."""
    made = WebhookDelivery(
        account_id=subscription.account_id, subscription_id=subscription.id, event_kind=kind, test=True
    )
    session.add(made)
    session.flush()
    delivery_queue.notify_dispatcher()
    return made
