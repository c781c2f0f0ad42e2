"""Notification channels in the API, and the settings of each type of channel."""

import json
import re

from marshmallow import RAISE, Schema, ValidationError, fields, pre_load, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Name, Out, Patch, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
MAX_HEADERS = 20
FIXED_HEADERS = {"host", "content-length", "content-type", "transfer-encoding", "connection", "user-agent"}
HEADER_NAME_PATTERN = re.compile(r"[A-Za-z0-9-]{1,64}")
HEADER_VALUE_PATTERN = re.compile(r"[\x20-\x7e]{0,1024}")


class Headers(fields.Dict):
    """Request headers: an object of strings, or the same as JSON in a string."""

    def _deserialize(self, value, attr, data, **kwargs):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValidationError(message("Must be an object of strings.")) from None
        headers = super()._deserialize(value, attr, data, **kwargs)
        if len(headers) > MAX_HEADERS:
            raise ValidationError(message("At most {maximum} headers.", maximum=MAX_HEADERS))
        for name, text in headers.items():
            if not isinstance(text, str) or not HEADER_NAME_PATTERN.fullmatch(name) or name.lower() in FIXED_HEADERS:
                raise ValidationError(message("This header cannot be set: {name}.", name=str(name)[:64]))
            if not HEADER_VALUE_PATTERN.fullmatch(text):
                raise ValidationError(message("The value of {name} must be printable ASCII.", name=name))
        return headers


class Config(Schema):
    """Settings of a channel. Clients may send every value as a string."""

    class Meta:
        unknown = RAISE


class ChatConfig(Config):
    webhook_url = Text(required=True, minimum=1, maximum=1000)


class TelegramConfig(Config):
    bot_token = Text(
        required=True,
        maximum=128,
        rules=[validate.Regexp(r"[0-9]+:[A-Za-z0-9_-]+\Z", error=message("Must be a token like 123456:ABC-DEF."))],
    )
    chat_id = Text(required=True, minimum=1, maximum=64)

    @pre_load
    def accept_number(self, data, **_):
        if isinstance(data.get("chat_id"), int) and not isinstance(data["chat_id"], bool):
            return {**data, "chat_id": str(data["chat_id"])}
        return data


def build_seconds_field(*, load_default, maximum):
    rule = validate.Range(1, maximum, error=message("Enter a number from {min} to {max}."))
    errors = {"invalid": message("Enter a whole number.")}
    return fields.Integer(load_default=load_default, validate=rule, error_messages=errors)


class WebhookConfig(Config):
    url = Text(required=True, minimum=1, maximum=1000)
    method = fields.String(load_default="POST", validate=validate.OneOf(("POST", "PUT")))
    headers = Headers(load_default=dict)
    secret = Text(maximum=255)
    connect_timeout = build_seconds_field(load_default=5, maximum=30)
    timeout = build_seconds_field(load_default=20, maximum=60)
    verify_ssl = fields.Boolean(load_default=True)


class MailConfig(Config):
    """Mails go to the owner of the account: nobody else can be made to get them."""


CONFIG_BY_TYPE = {
    "mail": MailConfig,
    "slack": ChatConfig,
    "discord": ChatConfig,
    "telegram": TelegramConfig,
    "webhook": WebhookConfig,
}

NAME = describe("Name of the channel.", "On call")
TYPE = describe("Type of the receiver. Mails go to the owner of the account.", "slack")
CONFIG = describe(
    "Settings of the type. `slack`, `discord`: `webhook_url`. `telegram`: `bot_token`, `chat_id`. `webhook`: `url`, "
    "and `method` (POST or PUT), `headers`, `secret`, `connect_timeout` (1 to 30 s), `timeout` (1 to 60 s), "
    "`verify_ssl`. `mail`: none. Values may be strings. They are never returned; a change replaces all of them.",
    {"webhook_url": "https://hooks.example.com/services/T0/B0/x"},
)
ENABLED = describe("Whether notifications are sent. Sending true resets `failure_count`.", True)


def build_type_field(description, **options):
    return fields.String(validate=validate.OneOf(tuple(CONFIG_BY_TYPE)), **options, **description)


class NotificationChannelIn(In):
    malformed = 422
    name = Name(required=True, **NAME)
    type = build_type_field(TYPE, required=True)
    config = fields.Dict(keys=fields.String(), load_default=dict, load_only=True, **CONFIG)
    enabled = Bool(load_default=True, **ENABLED)


class NotificationChannelPatch(Patch):
    malformed = 422
    name = Name(**NAME)
    type = build_type_field(describe("The channel's type, which cannot be changed.", "slack"))
    config = fields.Dict(keys=fields.String(), load_only=True, **CONFIG)
    enabled = Bool(**ENABLED)


class NotificationChannelOut(Out):
    id = fields.String(**describe("Id of the channel.", EXAMPLE_ID))
    name = fields.String(**NAME)
    type = fields.String(**TYPE)
    enabled = fields.Boolean(**describe("Whether notifications are sent.", True))
    auto_disabled = fields.Boolean(
        **describe("Whether it was disabled after 10 notifications in a row could not be delivered.", False)
    )
    failure_count = fields.Integer(**describe("Number of consecutive notifications that could not be delivered.", 0))
    last_sent_at = Time(allow_none=True, **describe("When a notification was last delivered, or null.", EXAMPLE_TIME))
    last_error = fields.String(allow_none=True, **describe("Why the last attempt failed; null if it succeeded.", None))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))
