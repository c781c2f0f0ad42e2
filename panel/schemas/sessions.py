"""Browser sessions in the operators' API."""

from marshmallow import fields

from panel.schemas.base import PageQuery, Text, describe
from panel.schemas.security import EXAMPLE_ID, SignInOut


class AdminSessionOut(SignInOut):
    user_id = fields.String(attribute="account_id", **describe("User id.", EXAMPLE_ID))
    email = fields.String(attribute="email", **describe("Email address of the user.", "ada@example.com"))
    impersonator = fields.String(
        attribute="impersonated_by",
        allow_none=True,
        **describe("Operator who impersonates the user, or null.", None),
    )


class SessionQuery(PageQuery):
    user_id = Text(maximum=36, **describe("Only sessions of this user.", EXAMPLE_ID))
    search = Text(**describe("Part of the email address.", "ada"))
