"""Location grants in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Out, PageQuery, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

PUBLIC_DESCRIPTION = describe("True: every customer may choose it. False: only accounts with a grant.", False)
MAX_ACCOUNTS_PER_REQUEST = 500
"""Maximum number of accounts in one request."""


def accounts_field(sentence):
    return fields.List(
        Text(maximum=36), validate=validate.Length(max=MAX_ACCOUNTS_PER_REQUEST), **describe(sentence, [EXAMPLE_ID])
    )


class AccessIn(In):
    public = Bool(required=True, **PUBLIC_DESCRIPTION)
    account_ids = accounts_field("The accounts that have a grant afterwards; without it the grants stay as they are.")


class AccessOut(Out):
    id = fields.String(**describe("Group id.", EXAMPLE_ID))
    name = fields.String(**describe("A short name, unique.", "fsn1"))
    display_name = fields.String(**describe("What customers see.", "Falkenstein"))
    public = fields.Boolean(**PUBLIC_DESCRIPTION)
    grants = fields.Integer(**describe("How many accounts have a grant.", 3))


class AffectedOut(Out):
    accounts = fields.Integer(**describe("Customers who may choose the group now and could not afterwards.", 12))
    accounts_with_instances = fields.Integer(**describe("Those of them who have instances there.", 2))
    instances = fields.Integer(**describe("Their instances there. They go on, and can be changed and destroyed.", 5))


class GroupGrantOut(Out):
    account_id = fields.String(**describe("The account.", EXAMPLE_ID))
    email = fields.String(**describe("Its email address.", "ada@example.com"))
    name = fields.String(attribute="account_name", **describe("Its name.", "Ada Lovelace"))
    created_at = Time(**describe("When it was granted.", "2026-01-02T03:04:05.678Z"))


class GrantableOut(Out):
    id = fields.String(**describe("The account.", EXAMPLE_ID))
    email = fields.String(**describe("Its email address.", "ada@example.com"))
    name = fields.String(**describe("Its name.", "Ada Lovelace"))


class GrantableQuery(PageQuery):
    search = Text(**describe("Part of a name, a company or an email address.", "ada"))


class ChoosableOut(Out):
    id = fields.String(**describe("Group id.", EXAMPLE_ID))
    name = fields.String(**describe("A short name, unique.", "fsn1"))
    display_name = fields.String(**describe("What customers see.", "Falkenstein"))
    enabled = fields.Boolean(**describe("Whether new resources may be placed there at all.", True))
    public = fields.Boolean(**PUBLIC_DESCRIPTION)
    granted = fields.Boolean(**describe("Whether the account has a grant.", True))
