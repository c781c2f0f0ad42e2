"""Webhook subscriptions of customers (specification 4.6), and all subscriptions for operators."""

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
    {"data": fields.Nested(KindOut, many=True, **describe("The catalog."))}, name="EventKinds"
)()
ATTEMPT_LIST = kit.Done.from_dict(
    {"data": fields.Nested(AttemptOut, many=True, **describe("The attempts, newest first."))}, name="DeliveryAttempts"
)()


@user.get("/webhook-event-kinds", op="kinds", can="webhooks.view", out=KIND_LIST)
def list_kinds():
    """List the kinds of events."""
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
    """Subscribe to events.

    An account has at most 20 subscriptions. The address must be https and lead to public addresses only.

    Events are delivered at least once. The first attempts are made in the order of the events. A delivery that fails
    is tried again after 10 s, 60 s, 5 min and 15 min, and later events are delivered meanwhile: an older event can
    arrive after a newer one. Compare `event.created_at` where the order matters.
    """
    subscription = subscriptions.create(kit.get_current_access(), **body)
    return {"message": "The subscription is made.", "webhook_subscription": subscription}


@user.get(
    "/webhook-subscription/<subscription_id>",
    op="get",
    can="webhooks.view",
    out=kit.build_wrapped_schema("webhook_subscription", WebhookOut),
)
def show(subscription_id):
    """Show a webhook subscription."""
    return {"message": None, "webhook_subscription": subscriptions.get(subscription_id, kit.get_current_access())}


@user.patch(
    "/webhook-subscription/<subscription_id>",
    op="update",
    can="webhooks.manage",
    body=WebhookPatch,
    out=kit.build_wrapped_schema("webhook_subscription", WebhookOut),
)
def update(body, subscription_id):
    """Change a webhook subscription.

    What is not sent stays, the secret too. Attempts are signed with the secret of their moment.
    """
    subscription = subscriptions.get(subscription_id, kit.get_current_access())
    changed = subscriptions.update(subscription, kit.get_current_access(), **body)
    return {"message": "The subscription is changed.", "webhook_subscription": changed}


@user.delete(
    "/webhook-subscription/<subscription_id>", op="delete", can="webhooks.delete", out=kit.build_result_schema()
)
def delete(subscription_id):
    """Remove a webhook subscription with its deliveries.

    What was still to be sent is not sent any more.
    """
    subscriptions.delete(subscriptions.get(subscription_id, kit.get_current_access()))
    return {"message": "The subscription and its deliveries are removed."}


@user.get(
    "/webhook-subscription/<subscription_id>/deliveries",
    op="deliveries",
    can="webhooks.view",
    query=DeliveryQuery,
    out=kit.build_page_schema(DeliveryOut),
)
def deliveries(query, subscription_id):
    """List the deliveries of a subscription, newest first.

    They are kept for 7 days, as long as their events. Each event is one delivery with up to 5 attempts; the answer has
    the response code, the duration and the error of the last one. `attempt` finds the delivery of an attempt by the
    value of its header `X-Hypervisor-Delivery`.
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

    The last 10 are kept; there are more than 5 when the delivery was sent again.
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
    """Send a made-up event to the subscription.

    Its `event.data` is `{"test": true}`. It is tried once, also while the subscription is off, and counts for nothing.
    """
    subscription = subscriptions.get(subscription_id, kit.get_current_access())
    return {"message": "The test event is on its way.", "delivery": subscriptions.send_test(subscription, **body)}


@user.post(
    "/webhook-subscription/<subscription_id>/delivery/<delivery_id>/redeliver",
    op="redeliver",
    can="webhooks.manage",
    out=kit.build_wrapped_schema("delivery", DeliveryOut),
    status=202,
)
def redeliver(subscription_id, delivery_id):
    """Send a delivery again.

    It must be over, and the subscription on. The event, and so its id, is the same.
    """
    subscription = subscriptions.get(subscription_id, kit.get_current_access())
    delivery = subscriptions.redeliver(subscription, subscriptions.get_delivery(subscription, delivery_id))
    return {"message": "The delivery is on its way again.", "delivery": delivery}


@admin.get(
    "/webhook-subscriptions",
    op="list",
    can=READ_PERMISSION,
    query=AdminWebhookQuery,
    out=kit.build_admin_page_schema(AdminWebhookOut),
)
def admin_listing(query):
    """List the webhook subscriptions of all accounts, newest first.

    For support. The secrets are not part of the answer.
    """
    return kit.paginate(subscriptions.list_all(**query))


@admin.get("/webhook-subscription/<subscription_id>", op="get", can=READ_PERMISSION, out=AdminWebhookOut)
def admin_show(subscription_id):
    """Show the webhook subscription of an account.

    For support. The secret is not part of the answer. Answers 404 when there is no such subscription.
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

    For support. They are kept for 7 days; bodies and answers are not shown. `attempt` finds the delivery of an attempt
    by the value of its header `X-Hypervisor-Delivery`. Answers 404 when there is no such subscription.
    """
    return kit.paginate(subscriptions.select_deliveries(subscriptions.get(subscription_id), **query))
