"""The user of the token in the API."""

from marshmallow import ValidationError, fields, validate

from panel.core.languages import list_languages
from panel.core.messages import message
from panel.schemas.base import Name, Out, Patch, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.instances import validate_time_zone


def validate_language(language):
    if language not in list_languages():
        raise ValidationError(message("Must be one of: {choices}.", choices=", ".join(list_languages())))


class ProfilePatch(Patch):
    first_name = Name(minimum=0, maximum=100, **describe("First name.", "Ada"))
    last_name = Name(minimum=0, maximum=100, **describe("Last name.", "Lovelace"))
    company_name = Name(minimum=0, allow_none=True, **describe("Company.", None))
    timezone = fields.String(validate=validate_time_zone, **describe("Time zone for displayed times.", "Europe/Berlin"))
    language = fields.String(
        allow_none=True,
        validate=validate_language,
        **describe("Language of pages and mails, such as `en`; null follows the browser.", None),
    )


class ProfileOut(Out):
    id = fields.String(**describe("Account id.", EXAMPLE_ID))
    first_name = fields.String(**describe("First name.", "Ada"))
    last_name = fields.String(**describe("Last name.", "Lovelace"))
    email = fields.String(**describe("Email address, unique.", "ada@example.com"))
    company_name = fields.String(allow_none=True, **describe("Company.", None))
    timezone = fields.String(**describe("Time zone for displayed times.", "Europe/Berlin"))
    language = fields.String(
        allow_none=True, **describe("Language of pages and mails; null if they follow the browser.", None)
    )
    default_currency = fields.String(**describe("Currency of all prices.", "EUR"))
    gravatar = fields.String(**describe("SHA-256 of the email address, for avatar services.", "31c5543c…"))
    owner_id = fields.String(
        allow_none=True,
        **describe(
            "Owner of the team, for a team member: the account whose resources the token can access. Otherwise null.",
            None,
        ),
    )
    status = fields.Integer(validate=validate.OneOf((1, 2)), **describe("1 active, 2 suspended.", 1))
    suspended_reason = fields.String(allow_none=True, **describe("Reason of the suspension, if given.", None))
    is_admin = fields.Boolean(**describe("Whether the user is an operator.", False))
    two_factor_enabled = fields.Boolean(**describe("Whether two-factor authentication is enabled.", True))
    self_provisioning = fields.Boolean(**describe("Unbilled provisioning: the panel never charges the account.", False))
    permissions = fields.List(
        fields.String(),
        allow_none=True,
        **describe("Permissions of a team member's role; null for the owner, who has all permissions.", None),
    )
    last_login_at = Time(allow_none=True, **describe("When the user last signed in.", "2026-01-02T03:04:05.678Z"))
    created_at = Time(**describe("When the account was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))
