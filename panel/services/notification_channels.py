"""Customers' notification channels, and the queue of notifications."""

import json
from typing import Any

from marshmallow import ValidationError
from sqlalchemy import Select, func, select

from panel.core import clock
from panel.core.db import lock_row, session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import get_message, message
from panel.models import Account, AlertNotification, NotificationChannel
from panel.schemas.notification_channels import CONFIG_BY_TYPE
from panel.services import settings
from panel.services.access import Access
from panel.services.crud import update_fields
from panel.services.webhooks import url_policy

MAX_CONSECUTIVE_FAILURES = 10
"""A channel is disabled after so many notifications in a row that could not be delivered."""

ADDRESS_FIELDS = {"slack": "webhook_url", "discord": "webhook_url", "webhook": "url"}
"""The setting with the address, which obeys the rules of webhook targets."""


def listing(account: Access | Account) -> Select[NotificationChannel]:
    query = select(NotificationChannel).where(account.visible_rows(NotificationChannel))
    return query.order_by(NotificationChannel.name, NotificationChannel.id)


def get(channel_id: str, account: Access | Account) -> NotificationChannel:
    query = listing(account).where(NotificationChannel.id == channel_id)
    channel = session.scalar(query.execution_options(populate_existing=True))  # workers update the counters
    if channel is None:
        raise NotFound(message("No such notification channel."))
    return channel


def get_all(channel_ids: list[Any], account: Access | Account) -> list[NotificationChannel]:
    """Return these channels of the account. Raise Invalid when one is not its own."""
    ids = {str(channel_id) for channel_id in channel_ids}
    channels = list(session.scalars(listing(account).where(NotificationChannel.id.in_(ids)))) if ids else []
    if len(channels) < len(ids):
        sentence = message("No such notification channel.")
        raise Invalid(sentence, channel_ids=sentence)
    return channels


def create(account: Access | Account, *, type: str, config: dict[str, Any], **values: Any) -> NotificationChannel:
    encrypted_config = dump_config(type, config)
    lock_row(Account, account.id)  # serializes the count
    count = select(func.count()).where(NotificationChannel.account_id == account.id)
    maximum = settings.get().max_notification_channels
    if session.scalars(count).one() >= maximum:
        raise Invalid(message("An account has at most {maximum} notification channels.", maximum=maximum))
    channel = NotificationChannel(account_id=account.id, type=type, encrypted_config=encrypted_config, **values)
    session.add(channel)
    session.flush()
    return channel


def update(channel: NotificationChannel, **changes: Any) -> NotificationChannel:
    """Change the given fields. A new configuration replaces the old one; enabling resets the failures."""
    if changes.pop("type", channel.type) != channel.type:
        sentence = message("The type cannot be changed. Create another channel.")
        raise Invalid(sentence, type=sentence)
    if "config" in changes:
        changes["encrypted_config"] = dump_config(channel.type, changes.pop("config"))
    if changes.get("enabled"):
        changes |= {"failure_count": 0, "auto_disabled": False}
    return update_fields(channel, changes)


def delete(channel: NotificationChannel) -> None:
    """Delete the channel. Rules lose it, and pending notifications are never sent."""
    session.delete(channel)
    session.flush()


def dump_config(type: str, config: dict[str, Any]) -> str:
    """Return the validated settings as JSON. Raise Invalid for a field like `config.webhook_url`."""
    try:
        values = CONFIG_BY_TYPE[type]().load(config)
    except ValidationError as error:
        fields = {f"config.{name}": texts for name, texts in error.normalized_messages().items()}
        raise Invalid(message("The settings of the channel are not valid."), **fields) from None
    if type in ADDRESS_FIELDS:
        name = ADDRESS_FIELDS[type]
        try:
            url_policy.resolve_target(values[name])
        except url_policy.UrlRefused as refused:
            raise Invalid(get_message(refused), **{f"config.{name}": get_message(refused)}) from None
    return json.dumps(values)


def send_test(channel: NotificationChannel) -> AlertNotification:
    """Queue a test message, even if the channel is disabled. Its result is in the channel's `last_error`."""
    notification = AlertNotification(channel_id=channel.id, due_at=clock.now())
    session.add(notification)
    session.flush()
    return notification


def select_notifications(channel: NotificationChannel) -> Select[AlertNotification]:
    """Select the channel's notifications, newest first."""
    query = select(AlertNotification).where(AlertNotification.channel_id == channel.id)
    return query.order_by(AlertNotification.id.desc())
