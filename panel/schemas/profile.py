"""The token's person in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Name, Out, Patch, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.instances import validate_time_zone


class ProfilePatch(Patch):
    first_name = Name(minimum=0, maximum=100, **describe("First name.", "Ada"))
    last_name = Name(minimum=0, maximum=100, **describe("Last name.", "Lovelace"))
    company_name = Name(minimum=0, allow_none=True, **describe("Company.", None))
    timezone = fields.String(
        validate=validate_time_zone, **describe("Time zone in which times are shown.", "Europe/Berlin")
    )


class ProfileOut(Out):
    id = fields.String(**describe("Account id.", EXAMPLE_ID))
    first_name = fields.String(**describe("First name.", "Ada"))
    last_name = fields.String(**describe("Last name.", "Lovelace"))
    email = fields.String(**describe("Email address, unique.", "ada@example.com"))
    company_name = fields.String(allow_none=True, **describe("Company.", None))
    timezone = fields.String(**describe("Time zone in which times are shown.", "Europe/Berlin"))
    default_currency = fields.String(**describe("The currency that prices are in.", "EUR"))
    gravatar = fields.String(**describe("SHA-256 of the email address, by which avatar services know it.", "31c5543c…"))
    owner_id = fields.String(
        allow_none=True,
        **describe("In whose team the person is: whose resources the token opens; null for one's own.", None),
    )
    status = fields.Integer(validate=validate.OneOf((1, 2)), **describe("1 active, 2 suspended.", 1))
    suspended_reason = fields.String(allow_none=True, **describe("Why it is suspended, if an operator said so.", None))
    is_admin = fields.Boolean(**describe("Whether the person runs the platform.", False))
    two_factor_enabled = fields.Boolean(**describe("Whether codes of an authenticator are asked for.", True))
    self_provisioning = fields.Boolean(**describe("Unbilled provisioning: never charged by the panel.", False))
    permissions = fields.List(
        fields.String(),
        allow_none=True,
        **describe("What the person's role in the team permits; null for the owner, who may do everything.", None),
    )
    last_login_at = Time(allow_none=True, **describe("When the person last signed in.", "2026-01-02T03:04:05.678Z"))
    created_at = Time(**describe("When the account was made.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))
