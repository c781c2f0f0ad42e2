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
            raise ValidationError(message("Must be a moment in ISO 8601, like 2026-01-02T03:04:05Z.")) from None


class AuditFilter(Schema):
    """Filters of the audit log."""

    search = Text(**describe("Part of a person, an object's name or an action; or a whole address or id.", "web-1"))
    action = Text(**describe("An operation's id, or a page's action.", "user.instance.create"))
    person = Text(**describe("Who acted: an email address, an id, or a platform token's name.", "ada@example.com"))
    object_id = Text(**describe("Id of the object.", EXAMPLE_ID))
    since = Moment(**describe("Not before this moment, ISO 8601.", "2026-01-02T03:04:05Z"))
    until = Moment(**describe("Not after this moment, ISO 8601.", "2026-01-03T03:04:05Z"))


class AuditQuery(AuditFilter, PageQuery):
    """The same filters with paging."""


class AuditOut(Out):
    id = fields.String(**describe("Id of the entry. Ids sort by age.", EXAMPLE_ID))
    created_at = Time(**describe("When it was done.", "2026-01-02T03:04:05.678Z"))
    person = fields.String(**describe("Who acted, as it was then.", "ada@example.com"))
    person_id = fields.String(
        allow_none=True, **describe("Id of the person; null for the platform's tokens.", EXAMPLE_ID)
    )
    person_kind = fields.String(
        validate=validate.OneOf(PERSON_KINDS),
        **describe("In what role the person acted. `nobody` had not signed in.", "owner"),
    )
    impersonator = fields.String(allow_none=True, **describe("The operator who acted as the person.", None))
    token_id = fields.String(allow_none=True, **describe("The token that was used; null at the pages.", EXAMPLE_ID))
    token_name = fields.String(allow_none=True, **describe("The token's name.", "deploys"))
    ip = fields.String(allow_none=True, **describe("From which address; null when the platform acted.", "192.0.2.7"))
    action = fields.String(**describe("The operation's id, or the page's action.", "user.instance.create"))
    object_type = fields.String(allow_none=True, **describe("What kind of thing it was done to.", "instance"))
    object_id = fields.String(allow_none=True, **describe("That thing's id.", EXAMPLE_ID))
    object_name = fields.String(allow_none=True, **describe("That thing's name at that time.", "web-1"))
    changes = fields.Dict(
        **describe(
            "What became of it: `did` is `made`, `changed`, `removed`, `asked` or `refused`; `fields` names what"
            " changed, without values; `task` is the work that was asked for.",
            {"did": "changed", "fields": ["name"]},
        )
    )
    also = fields.List(
        fields.String(),
        allow_none=True,
        **describe("Further objects that it was done to, at most 200.", ["ssh key laptop"]),
    )


class AdminAuditOut(AuditOut):
    account_id = fields.String(
        allow_none=True, **describe("In whose trail it stands; null for the platform's own.", EXAMPLE_ID)
    )
    target_user = Shape(
        "TargetUser",
        {
            "id": ("account_id", describe("Id of the user in whose trail it stands.", EXAMPLE_ID)),
            "email": (
                "account_email",
                {"allow_none": True, **describe("Email address; null when gone.", "a@example.com")},
            ),
        },
        allow_none=True,
        **describe("The user whose resources it was about; null for the platform's own."),
    )
