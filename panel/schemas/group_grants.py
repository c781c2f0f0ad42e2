"""Location grants in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Out, PageQuery, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

PUBLIC_DESCRIPTION = describe("If true, all customers can select it; if false, only accounts with a grant.", False)
MAX_ACCOUNTS_PER_REQUEST = 500
"""Maximum number of accounts in one request."""


def accounts_field(sentence):
    return fields.List(
        Text(maximum=36), validate=validate.Length(max=MAX_ACCOUNTS_PER_REQUEST), **describe(sentence, [EXAMPLE_ID])
    )


class AccessIn(In):
    public = Bool(required=True, **PUBLIC_DESCRIPTION)
    account_ids = accounts_field(
        "Ids of all accounts with a grant, replacing the current ones. Without it, the grants are not changed."
    )


class AccessOut(Out):
    id = fields.String(**describe("Group id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique short name.", "fsn1"))
    display_name = fields.String(**describe("Name shown to customers.", "Falkenstein"))
    public = fields.Boolean(**PUBLIC_DESCRIPTION)
    grants = fields.Integer(**describe("Number of grants.", 3))


class AffectedOut(Out):
    accounts = fields.Integer(**describe("Number of customers who would lose access.", 12))
    accounts_with_instances = fields.Integer(**describe("Number of these customers with instances in the group.", 2))
    instances = fields.Integer(
        **describe("Number of their instances in the group. They keep running and can be changed and destroyed.", 5)
    )


class GroupGrantOut(Out):
    account_id = fields.String(**describe("Account id.", EXAMPLE_ID))
    email = fields.String(**describe("Email address of the account.", "ada@example.com"))
    name = fields.String(attribute="account_name", **describe("Name of the account.", "Ada Lovelace"))
    created_at = Time(**describe("When it was granted.", "2026-01-02T03:04:05.678Z"))


class GrantableOut(Out):
    id = fields.String(**describe("Account id.", EXAMPLE_ID))
    email = fields.String(**describe("Email address of the account.", "ada@example.com"))
    name = fields.String(**describe("Name of the account.", "Ada Lovelace"))


class GrantableQuery(PageQuery):
    search = Text(**describe("Part of a name, company or email address.", "ada"))


class ChoosableOut(Out):
    id = fields.String(**describe("Group id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique short name.", "fsn1"))
    display_name = fields.String(**describe("Name shown to customers.", "Falkenstein"))
    enabled = fields.Boolean(**describe("Whether the group accepts new resources.", True))
    public = fields.Boolean(**PUBLIC_DESCRIPTION)
    granted = fields.Boolean(**describe("Whether the account has a grant.", True))
