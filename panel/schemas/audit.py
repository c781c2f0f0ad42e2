"""The audit log in the API."""

from datetime import UTC

from marshmallow import Schema, ValidationError, fields, validate

from panel.core.messages import message
from panel.schemas.base import Out, PageQuery, Shape, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

PLATFORM_PERSON_KINDS = ("operator", "admin_token", "billing_token", "command_line")
PERSON_KINDS = ("owner", "member", *PLATFORM_PERSON_KINDS, "nobody")


class Moment(fields.AwareDateTime):
    """An ISO 8601 time. Without an offset it is UTC."""

    def __init__(self, **options):
        super().__init__(format="iso", default_timezone=UTC, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        try:
            return super()._deserialize(value, attr, data, **kwargs).astimezone(UTC)
        except (ValidationError, OverflowError):
            raise ValidationError(message("Must be a time in ISO 8601 format, such as 2026-01-02T03:04:05Z.")) from None


class AuditFilter(Schema):
    """Filters of the audit log."""

    search = Text(**describe("Part of a user, object name or action; or a complete IP address or id.", "web-1"))
    action = Text(**describe("Operation id, or action of a page.", "user.instance.create"))
    person = Text(**describe("User: an email address, an id, or the name of a platform token.", "ada@example.com"))
    object_id = Text(**describe("Id of the object.", EXAMPLE_ID))
    since = Moment(**describe("Only entries at or after this time, ISO 8601.", "2026-01-02T03:04:05Z"))
    until = Moment(**describe("Only entries at or before this time, ISO 8601.", "2026-01-03T03:04:05Z"))


class AuditQuery(AuditFilter, PageQuery):
    """The same filters with paging."""


class AuditOut(Out):
    id = fields.String(**describe("Id of the entry. Ids sort by age.", EXAMPLE_ID))
    created_at = Time(**describe("Time of the action.", "2026-01-02T03:04:05.678Z"))
    person = fields.String(**describe("User at the time of the action.", "ada@example.com"))
    person_id = fields.String(allow_none=True, **describe("Id of the user; null for platform tokens.", EXAMPLE_ID))
    person_kind = fields.String(
        validate=validate.OneOf(PERSON_KINDS),
        **describe("Role of the user. `nobody`: not signed in.", "owner"),
    )
    impersonator = fields.String(allow_none=True, **describe("Operator who impersonated the user, or null.", None))
    token_id = fields.String(
        allow_none=True, **describe("Token of the request; null for actions in the browser.", EXAMPLE_ID)
    )
    token_name = fields.String(allow_none=True, **describe("Name of the token.", "deploys"))
    ip = fields.String(allow_none=True, **describe("Source address; null for actions of the platform.", "192.0.2.7"))
    action = fields.String(**describe("Operation id, or action of a page.", "user.instance.create"))
    object_type = fields.String(allow_none=True, **describe("Type of the object.", "instance"))
    object_id = fields.String(allow_none=True, **describe("Id of the object.", EXAMPLE_ID))
    object_name = fields.String(allow_none=True, **describe("Name of the object at that time.", "web-1"))
    changes = fields.Dict(
        **describe(
            "Result: `did` is `made`, `changed`, `removed`, `asked` (requested) or `refused`; `fields`"
            " lists the changed fields, without values; `task` is the requested task.",
            {"did": "changed", "fields": ["name"]},
        )
    )
    also = fields.List(
        fields.String(),
        allow_none=True,
        **describe("Further affected objects, at most 200.", ["ssh key laptop"]),
    )


class AdminAuditOut(AuditOut):
    account_id = fields.String(
        allow_none=True, **describe("Account whose audit log contains the entry; null for the platform.", EXAMPLE_ID)
    )
    target_user = Shape(
        "TargetUser",
        {
            "id": ("account_id", describe("Id of that account.", EXAMPLE_ID)),
            "email": (
                "account_email",
                {"allow_none": True, **describe("Email address; null if the account was deleted.", "a@example.com")},
            ),
        },
        allow_none=True,
        **describe("Owner of the affected resources; null for the platform."),
    )
