"""Announcements in the API."""

from marshmallow import fields, validate

from panel.schemas.base import In, Name, Out, Patch, Text, Time, describe
from panel.schemas.tokens import Moment

ANNOUNCEMENT_KINDS = ("announcement", "maintenance")
EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
MAX_TEXT = 2000
KIND = describe("`announcement`, or `maintenance`, which is shown before it begins.", "maintenance")
TITLE = describe("Title.", "Network maintenance")
TEXT = describe("Text, without formatting.", "Connections are interrupted for up to 5 minutes.")
STARTS_AT = describe("When it begins. An announcement is shown from then on.", "2030-01-02T22:00:00Z")
ENDS_AT = describe("When it ends, at most 10 years from now. It is not shown any more.", "2030-01-03T02:00:00Z")
GROUP_ID = describe("Only customers with instances at this location. Null: all customers.", None)
ACCOUNT_ID = describe(
    "Only this customer and its team. No operator and no member of a team. Null: all customers.", None
)


def build_kind_field(**options):
    return fields.String(validate=validate.OneOf(ANNOUNCEMENT_KINDS), **options, **KIND)


class AnnouncementIn(In):
    kind = build_kind_field(load_default="announcement")
    title = Name(required=True, attribute="name", maximum=120, **TITLE)
    text = Text(required=True, minimum=1, maximum=MAX_TEXT, lines=True, **TEXT)
    starts_at = Moment(**STARTS_AT)
    ends_at = Moment(required=True, **ENDS_AT)
    group_id = fields.UUID(allow_none=True, load_default=None, **GROUP_ID)
    account_id = fields.UUID(allow_none=True, load_default=None, **ACCOUNT_ID)


class AnnouncementPatch(Patch):
    kind = build_kind_field()
    title = Name(attribute="name", maximum=120, **TITLE)
    text = Text(minimum=1, maximum=MAX_TEXT, lines=True, **TEXT)
    starts_at = Moment(**STARTS_AT)
    ends_at = Moment(**ENDS_AT)
    group_id = fields.UUID(allow_none=True, **GROUP_ID)
    account_id = fields.UUID(allow_none=True, **ACCOUNT_ID)


class AnnouncementOut(Out):
    id = fields.String(**describe("Id of the announcement.", EXAMPLE_ID))
    kind = fields.String(**KIND)
    title = fields.String(attribute="name", **TITLE)
    text = fields.String(**TEXT)
    starts_at = Time(**STARTS_AT)
    ends_at = Time(**ENDS_AT)


class AdminAnnouncementOut(AnnouncementOut):
    status = fields.String(**describe("`planned`, `shown` or `ended`.", "shown"))
    audience = fields.String(**describe("`all`, `location` or `customer`.", "all"))
    group_id = fields.String(allow_none=True, **GROUP_ID)
    account_id = fields.String(allow_none=True, **ACCOUNT_ID)
    sent_at = Time(allow_none=True, **describe("When it was in the inbox of everybody, or null.", EXAMPLE_TIME))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))
