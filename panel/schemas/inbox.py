"""Notifications in people's inboxes, in the API."""

from marshmallow import ValidationError, fields, validate, validates_schema

from panel.core.messages import message
from panel.schemas.base import Bool, In, Out, PageQuery, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
INBOX_KINDS = (
    "security",
    "task_failed",
    "task_long",
    "backup",
    "alert",
    "traffic",
    "balance",
    "certificate",
    "team",
    "announcement",
)
KIND = describe("Kind of the notification.", "task_failed")
IN_INBOX = describe("Whether notifications of this kind appear in the inbox.", True)
BY_MAIL = describe("Whether they are also sent by mail.", False)
MAX_IDS_PER_REQUEST = 100


class InboxQuery(PageQuery):
    kind = fields.String(validate=validate.OneOf(INBOX_KINDS), metadata={"description": "Only this kind."})
    unread = fields.Boolean(metadata={"description": "Only unread notifications (true), or only read ones (false)."})


class InboxMessageOut(Out):
    id = fields.String(**describe("Id of the notification.", EXAMPLE_ID))
    kind = fields.String(**KIND)
    severity = fields.String(**describe("`info`, `warning` or `error`.", "error"))
    message = fields.String(attribute="text", **describe("What happened.", "Backup of web-1 failed: the disk is full."))
    resource_type = fields.String(allow_none=True, **describe("Type of the resource it is about, or null.", "instance"))
    resource_id = fields.String(allow_none=True, **describe("Id of that resource, or null.", EXAMPLE_ID))
    path = fields.String(
        allow_none=True, **describe("Path of the page that shows more, or null.", f"/tasks/{EXAMPLE_ID}")
    )
    read_at = Time(allow_none=True, **describe("When it was marked as read, or null.", None))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))


class InboxRead(In):
    """Either some notifications or all of them."""

    ids = fields.List(
        fields.UUID(),
        validate=validate.Length(min=1, max=MAX_IDS_PER_REQUEST),
        **describe("Ids of the notifications. Leave it out when you send `all`.", [EXAMPLE_ID]),
    )
    all = Bool(load_default=False, **describe("Mark all notifications as read.", False))

    @validates_schema
    def check_choice(self, data, **_):
        if ("ids" in data) == data.get("all", False):
            raise ValidationError(message("Send either ids or all."), "ids")


class InboxPreferenceIn(In):
    kind = fields.String(required=True, validate=validate.OneOf(INBOX_KINDS), **KIND)
    inbox = Bool(**IN_INBOX)
    mail = Bool(**BY_MAIL)


class InboxPreferencesPatch(In):
    preferences = fields.List(
        fields.Nested(InboxPreferenceIn),
        required=True,
        validate=validate.Length(min=1, max=len(INBOX_KINDS)),
        **describe("Kinds to change. Other kinds stay as they are.", [{"kind": "task_failed", "mail": True}]),
    )


class InboxPreferenceOut(Out):
    kind = fields.String(**KIND)
    label = fields.String(**describe("Name of the kind.", "Failed tasks"))
    description = fields.String(**describe("What the kind is about.", "A task on one of your resources failed."))
    inbox = fields.Boolean(**IN_INBOX)
    mail = fields.Boolean(**BY_MAIL)
    fixed = fields.Boolean(**describe("Whether the kind cannot be turned off.", False))
