"""Customers' notification channels."""

from api import kit
from panel.schemas.base import PageQuery
from panel.schemas.notification_channels import (
    NotificationChannelIn,
    NotificationChannelOut,
    NotificationChannelPatch,
)
from panel.services import notification_channels

user = kit.User("notification_channel", __name__, description="Notification channels")
CHANNEL = kit.build_wrapped_schema("channel", NotificationChannelOut)
CHANNELS = kit.build_wrapped_schema("channels", kit.build_page_schema(NotificationChannelOut))


def get_channel(channel_id):
    return notification_channels.get(channel_id, kit.get_current_access())


@user.get("/notification-channels", op="list", can="monitoring.view", query=PageQuery, out=CHANNELS)
def listing():
    """List notification channels."""
    return {"message": None, "channels": kit.paginate(notification_channels.listing(kit.get_current_access()))}


@user.post("/notification-channels", op="create", can="monitoring.manage", body=NotificationChannelIn, out=CHANNEL)
def create(body):
    """Create a notification channel.

    Addresses must be https and resolve to public addresses only. Fields in `errors` have names like
    `config.webhook_url`. The type `telegram` sends messages by a bot, `mail` to the owner of the account.
    """
    channel = notification_channels.create(kit.get_current_access(), **body)
    return {"message": "Notification channel created.", "channel": channel}


@user.get("/notification-channel/<channel_id>", op="get", can="monitoring.view", out=CHANNEL)
def show(channel_id):
    """Get a notification channel.

    Its settings are never returned.
    """
    return {"message": None, "channel": get_channel(channel_id)}


@user.patch(
    "/notification-channel/<channel_id>",
    op="update",
    can="monitoring.manage",
    body=NotificationChannelPatch,
    out=CHANNEL,
)
def update(body, channel_id):
    """Update a notification channel.

    Only the fields you send are changed. Sending `enabled` as true resets the failures.
    """
    channel = notification_channels.update(get_channel(channel_id), **body)
    return {"message": "Notification channel updated.", "channel": channel}


@user.delete("/notification-channel/<channel_id>", op="delete", can="monitoring.delete", out=kit.build_result_schema())
def delete(channel_id):
    """Delete a notification channel.

    Alert rules lose it, and pending notifications are cancelled.
    """
    notification_channels.delete(get_channel(channel_id))
    return {"message": "Notification channel deleted."}


@user.post("/notification-channel/<channel_id>/test", op="test", can="monitoring.manage", out=kit.build_result_schema())
def send_test(channel_id):
    """Send a test message.

    It is sent within seconds, even if the channel is disabled. `last_sent_at` and `last_error` of the channel have the
    result; tests do not change `failure_count`.
    """
    notification_channels.send_test(get_channel(channel_id))
    return {"message": "Test message requested."}
