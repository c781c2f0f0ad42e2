"""Browser sessions in the operators' API."""

from marshmallow import fields

from panel.schemas.base import PageQuery, Text, describe
from panel.schemas.security import EXAMPLE_ID, SignInOut


class AdminSessionOut(SignInOut):
    user_id = fields.String(attribute="account_id", **describe("Who is signed in.", EXAMPLE_ID))
    email = fields.String(attribute="email", **describe("That person's address.", "ada@example.com"))
    impersonator = fields.String(
        attribute="impersonated_by",
        allow_none=True,
        **describe("The operator who looks at the panel as that person; null for the person.", None),
    )


class SessionQuery(PageQuery):
    user_id = Text(maximum=36, **describe("Only this person's.", EXAMPLE_ID))
    search = Text(**describe("Part of the email address.", "ada"))
