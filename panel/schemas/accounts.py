"""Accounts in the operators' API."""

from typing import Any

from marshmallow import Schema, fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Name, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import ACCOUNT_LIMITS, MAX_OPERATOR_ROLE_NAME, PASSWORD_MAX_LENGTH, PASSWORD_MIN_LENGTH
from panel.schemas.instances import validate_time_zone

SUSPENSION_REASON_DESCRIPTION = describe("Reason of the suspension, visible to the user.", "Invoice 1042 is overdue.")
ROLE_DESCRIPTION = describe("Name of the operator role; null if the user is not an operator.", "support")


class Email(Text):
    def __init__(self, **options):
        super().__init__(maximum=255, rules=[validate.Email(error=message("Must be an email address."))], **options)


class AccountPassword(Text):
    """A new password of an account.

    Whether it is strong enough depends on the account, so panel.services.password_rules checks it.
    """

    def __init__(self, **options):
        super().__init__(minimum=PASSWORD_MIN_LENGTH, maximum=PASSWORD_MAX_LENGTH, **options)


PASSWORD_RULE = "At least 12 characters; common passwords, patterns and the user's email address are refused."


def make_limit_fields(make_field):
    """Return {name: field} for a schema with one field for each limit of an account."""
    return {name: make_field(str(subject)) for name, subject in ACCOUNT_LIMITS.items()}


def limit_out_field(subject):
    return fields.Integer(**describe(f"{subject}: maximum; 0 means unlimited.", 5))


def limit_in_field(subject):
    return Int(allow_none=True, **describe(f"{subject}: maximum; 0 means unlimited, null keeps the current value.", 5))


Caps: Any = Out.from_dict(make_limit_fields(limit_out_field), name="Caps")
"""The limits of an account (OTH-01)."""


class OpenInvitation(Out):
    membership_id = fields.String(
        attribute="id", **describe("Membership id. Use it to withdraw the invitation.", EXAMPLE_ID)
    )
    email = fields.String(**describe("Email address of the invited user.", "grace@example.com"))
    invited_at = Time(**describe("When it was last sent.", "2026-01-02T03:04:05.678Z"))


class AccountOut(Caps):
    id = fields.String(**describe("User id.", EXAMPLE_ID))
    email = fields.String(**describe("Email address, unique.", "ada@example.com"))
    first_name = fields.String(**describe("First name.", "Ada"))
    last_name = fields.String(**describe("Last name.", "Lovelace"))
    company_name = fields.String(allow_none=True, **describe("Company.", None))
    timezone = fields.String(**describe("Time zone for displayed times.", "UTC"))
    is_admin = fields.Boolean(**describe("Whether the user is an operator.", False))
    operator_role = fields.String(allow_none=True, **ROLE_DESCRIPTION)
    owner_id = fields.String(
        allow_none=True, **describe("Owner of the team that the user is a member of, or null.", None)
    )
    membership_id = fields.String(allow_none=True, **describe("Membership in that team, or null.", None))
    invitations = fields.Nested(OpenInvitation, many=True, **describe("Open invitations to the user's team."))
    external_id = fields.String(allow_none=True, **describe("Id of the user in the billing system.", "client-1042"))
    self_provisioning = fields.Boolean(**describe("Unbilled provisioning: the panel never charges the account.", False))
    two_factor_enabled = fields.Boolean(**describe("Whether two-factor authentication is enabled.", False))
    suspended_at = Time(allow_none=True, **describe("When the account was suspended.", None))
    suspended_reason = fields.String(
        allow_none=True, **describe("Reason of the suspension, visible to the user.", None)
    )
    last_login_at = Time(allow_none=True, **describe("When the user last signed in.", "2026-01-02T03:04:05.678Z"))
    instances = fields.Integer(**describe("Number of instances.", 3))
    created_at = Time(**describe("When the account was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AccountIn(In):
    email = Email(required=True, **describe("Email address, unique.", "ada@example.com"))
    password = AccountPassword(
        load_default=None,
        allow_none=True,
        **describe(f"{PASSWORD_RULE} Without one the user cannot sign in to the panel yet.", "correct horse battery"),
    )
    first_name = Name(minimum=0, maximum=100, **describe("First name.", "Ada"))
    last_name = Name(minimum=0, maximum=100, **describe("Last name.", "Lovelace"))
    company_name = Name(minimum=0, allow_none=True, **describe("Company.", None))
    timezone = fields.String(validate=validate_time_zone, **describe("Time zone for displayed times.", "Europe/Berlin"))


AccountLimits: Any = Patch.from_dict(make_limit_fields(limit_in_field), name="AccountLimits")
"""The limits of an account, as operators set them."""


class AccountPatch(AccountLimits):
    """Changes of an account by operators. Missing fields stay as they are."""

    email = Email(**describe("Email address, unique.", "ada@example.com"))
    first_name = Name(minimum=0, maximum=100, **describe("First name.", "Ada"))
    last_name = Name(minimum=0, maximum=100, **describe("Last name.", "Lovelace"))
    company_name = Name(minimum=0, allow_none=True, **describe("Company.", None))
    timezone = fields.String(validate=validate_time_zone, **describe("Time zone for displayed times.", "Europe/Berlin"))
    self_provisioning = Bool(**describe("Unbilled provisioning: the panel never charges the account.", True))


class AccountQuery(PageQuery):
    search = fields.String(
        validate=validate.Length(max=255), metadata={"description": "Part of a name, company or email address."}
    )
    kind = fields.String(
        validate=validate.OneOf(("customer", "member", "operator")),
        metadata={"description": "Only customers, only members of a customer's team, or only operators."},
    )
    suspended = fields.Boolean(metadata={"description": "Only suspended users (true), or only others (false)."})


class Suspension(In):
    reason = Text(maximum=1000, load_default=None, allow_none=True, lines=True, **SUSPENSION_REASON_DESCRIPTION)


class Promotion(In):
    role = Text(
        required=True,
        allow_none=True,
        minimum=1,
        maximum=MAX_OPERATOR_ROLE_NAME,
        **describe("Name of a role of `GET /api/v1/roles`; null removes the role.", "support"),
    )


class NewPassword(Out):
    password = fields.String(**describe("The new password. Only returned in this response.", "kX2v…"))


class Limit(Schema):
    value = fields.Integer(**describe("Maximum; 0 means unlimited.", 5))
    unlimited = fields.Boolean(**describe("Whether there is no limit.", False))
    used = fields.Integer(allow_none=True, **describe("Current number; null if it is not counted.", 2))


def limit_state_field(subject):
    return fields.Nested(Limit, **describe(f"{subject}: limit and usage."))


LimitsOut = Schema.from_dict(make_limit_fields(limit_state_field), name="LimitsOut")
