"""Webhook subscriptions of customers, and all subscriptions for operators."""

from marshmallow import fields

from api import kit
from panel.schemas.base import PageQuery, describe
from panel.schemas.webhooks import (
    EVENT_KINDS,
    AdminWebhookOut,
    AdminWebhookQuery,
    AttemptOut,
    DeliveryOut,
    DeliveryQuery,
    KindOut,
    TestIn,
    WebhookIn,
    WebhookOut,
    WebhookPatch,
)
from panel.services.webhooks import subscriptions

user = kit.User("webhook", __name__, description="Webhooks")
admin = kit.Admin("webhook", __name__, description="Webhooks of users")
READ_PERMISSION = "admin:accounts:read"

KIND_LIST = kit.Done.from_dict(
    {"data": fields.Nested(KindOut, many=True, **describe("The event kinds."))}, name="EventKinds"
)()
ATTEMPT_LIST = kit.Done.from_dict(
    {"data": fields.Nested(AttemptOut, many=True, **describe("The attempts, newest first."))}, name="DeliveryAttempts"
)()


@user.get("/webhook-event-kinds", op="kinds", can="webhooks.view", out=KIND_LIST)
def list_kinds():
    """List event kinds."""
    return {"message": None, "data": list(EVENT_KINDS.values())}


@user.get(
    "/webhook-subscriptions", op="list", can="webhooks.view", query=PageQuery, out=kit.build_page_schema(WebhookOut)
)
def listing():
    """List webhook subscriptions, newest first."""
    return kit.paginate(subscriptions.listing(kit.get_current_access()))


@user.post(
    "/webhook-subscriptions",
    op="create",
    can="webhooks.manage",
    body=WebhookIn,
    out=kit.build_wrapped_schema("webhook_subscription", WebhookOut),
    status=201,
)
def create(body):
    """Create a webhook subscription.

    An account can have 20 subscriptions. The URL must be https and resolve to public addresses only.

    Events are delivered at least once. First attempts are sent in the order of the events. A failed delivery is retried
    after 10 s, 60 s, 5 min and 15 min while later events are delivered, so an older event can arrive after a newer one.
    Compare `event.created_at` if the order matters.
    """
    subscription = subscriptions.create(kit.get_current_access(), **body)
    return {"message": "Webhook subscription created.", "webhook_subscription": subscription}


@user.get(
    "/webhook-subscription/<subscription_id>",
    op="get",
    can="webhooks.view",
    out=kit.build_wrapped_schema("webhook_subscription", WebhookOut),
)
def show(subscription_id):
    """Get a webhook subscription."""
    return {"message": None, "webhook_subscription": subscriptions.get(subscription_id, kit.get_current_access())}


@user.patch(
    "/webhook-subscription/<subscription_id>",
    op="update",
    can="webhooks.manage",
    body=WebhookPatch,
    out=kit.build_wrapped_schema("webhook_subscription", WebhookOut),
)
def update(body, subscription_id):
    """Update a webhook subscription.

    Only the fields you send are changed; without `secret` the secret is kept. Each attempt is signed with the secret
    that is valid at that moment.
    """
    subscription = subscriptions.get(subscription_id, kit.get_current_access())
    changed = subscriptions.update(subscription, kit.get_current_access(), **body)
    return {"message": "Webhook subscription updated.", "webhook_subscription": changed}


@user.delete(
    "/webhook-subscription/<subscription_id>", op="delete", can="webhooks.delete", out=kit.build_result_schema()
)
def delete(subscription_id):
    """Delete a webhook subscription with its deliveries.

    Pending deliveries are cancelled.
    """
    subscriptions.delete(subscriptions.get(subscription_id, kit.get_current_access()))
    return {"message": "Webhook subscription and its deliveries deleted."}


@user.get(
    "/webhook-subscription/<subscription_id>/deliveries",
    op="deliveries",
    can="webhooks.view",
    query=DeliveryQuery,
    out=kit.build_page_schema(DeliveryOut),
)
def deliveries(query, subscription_id):
    """List the deliveries of a subscription, newest first.

    Deliveries are kept for 7 days, like their events. Each event has one delivery with up to 5 attempts; the response
    contains the HTTP status, duration and error of the last one. Set `attempt` to the value of the header
    `X-Hypervisor-Delivery` to find the delivery of an attempt.
    """
    subscription = subscriptions.get(subscription_id, kit.get_current_access())
    return kit.paginate(subscriptions.select_deliveries(subscription, **query))


@user.get(
    "/webhook-subscription/<subscription_id>/delivery/<delivery_id>/attempts",
    op="attempts",
    can="webhooks.view",
    out=ATTEMPT_LIST,
)
def attempts(subscription_id, delivery_id):
    """List the attempts of a delivery, newest first.

    The last 10 attempts are kept. There are more than 5 if the delivery was sent again.
    """
    subscription = subscriptions.get(subscription_id, kit.get_current_access())
    return {"message": None, "data": subscriptions.list_attempts(subscriptions.get_delivery(subscription, delivery_id))}


@user.post(
    "/webhook-subscription/<subscription_id>/test",
    op="test",
    can="webhooks.manage",
    body=TestIn,
    out=kit.build_wrapped_schema("delivery", DeliveryOut),
    status=202,
)
def send_test(body, subscription_id):
    """Send a test event to the subscription.

    Its `event.data` is `{"test": true}`. It is attempted once, even if the subscription is disabled, and does not
    change `consecutive_failures`.
    """
    subscription = subscriptions.get(subscription_id, kit.get_current_access())
    return {"message": "Test event requested.", "delivery": subscriptions.send_test(subscription, **body)}


@user.post(
    "/webhook-subscription/<subscription_id>/delivery/<delivery_id>/redeliver",
    op="redeliver",
    can="webhooks.manage",
    out=kit.build_wrapped_schema("delivery", DeliveryOut),
    status=202,
)
def redeliver(subscription_id, delivery_id):
    """Send a delivery again.

    The delivery must have ended and the subscription must be enabled. The event and its id stay the same.
    """
    subscription = subscriptions.get(subscription_id, kit.get_current_access())
    delivery = subscriptions.redeliver(subscription, subscriptions.get_delivery(subscription, delivery_id))
    return {"message": "Delivery requested.", "delivery": delivery}


@admin.get(
    "/webhook-subscriptions",
    op="list",
    can=READ_PERMISSION,
    query=AdminWebhookQuery,
    out=kit.build_admin_page_schema(AdminWebhookOut),
)
def admin_listing(query):
    """List the webhook subscriptions of all users, newest first.

    Secrets are not returned.
    """
    return kit.paginate(subscriptions.list_all(**query))


@admin.get("/webhook-subscription/<subscription_id>", op="get", can=READ_PERMISSION, out=AdminWebhookOut)
def admin_show(subscription_id):
    """Get a webhook subscription of any user.

    The secret is not returned. Returns 404 if the subscription does not exist.
    """
    return subscriptions.get(subscription_id)


@admin.get(
    "/webhook-subscription/<subscription_id>/deliveries",
    op="deliveries",
    can=READ_PERMISSION,
    query=DeliveryQuery,
    out=kit.build_admin_page_schema(DeliveryOut),
)
def admin_deliveries(query, subscription_id):
    """List the deliveries of a subscription, newest first.

    Deliveries are kept for 7 days; request and response bodies are not returned. Set `attempt` to the value of the
    header `X-Hypervisor-Delivery` to find the delivery of an attempt. Returns 404 if the subscription does not exist.
    """
    return kit.paginate(subscriptions.select_deliveries(subscriptions.get(subscription_id), **query))
