"""Accounts in the operators' API."""

from typing import Any

from marshmallow import Schema, fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Name, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import ACCOUNT_LIMITS, OPERATOR_ROLES, PASSWORD_MAX_LENGTH, PASSWORD_MIN_LENGTH
from panel.schemas.instances import validate_time_zone

SUSPENSION_REASON_DESCRIPTION = describe("Why the account is suspended; the user sees it.", "Invoice 1042 is overdue.")
ROLE_DESCRIPTION = describe("`full`, `support` or `read_only`; null for who runs nothing.", "support")


class Email(Text):
    def __init__(self, **options):
        super().__init__(maximum=255, rules=[validate.Email(error=message("Must be an email address."))], **options)


class AccountPassword(Text):
    """A new password of an account.

    Whether it is strong enough depends on the account, so panel.services.password_rules checks it.
    """

    def __init__(self, **options):
        super().__init__(minimum=PASSWORD_MIN_LENGTH, maximum=PASSWORD_MAX_LENGTH, **options)


PASSWORD_RULE = "At least 12 characters; common passwords, patterns and the person's email address are refused."


def make_limit_fields(make_field):
    """Return {name: field} for a schema with one field for each limit of an account."""
    return {name: make_field(str(subject)) for name, subject in ACCOUNT_LIMITS.items()}


def limit_out_field(subject):
    return fields.Integer(**describe(f"{subject} at most; 0 is unlimited.", 5))


def limit_in_field(subject):
    return Int(allow_none=True, **describe(f"{subject} at most; 0 is unlimited, null keeps what it is.", 5))


Caps: Any = Out.from_dict(make_limit_fields(limit_out_field), name="Caps")
"""The limits of an account (specification 2.9)."""


class OpenInvitation(Out):
    membership_id = fields.String(
        attribute="id", **describe("The membership that acceptance makes; it ends the invitation too.", EXAMPLE_ID)
    )
    email = fields.String(**describe("Where the invitation was sent to.", "grace@example.com"))
    invited_at = Time(**describe("When it was last sent.", "2026-01-02T03:04:05.678Z"))


class AccountOut(Caps):
    id = fields.String(**describe("User id.", EXAMPLE_ID))
    email = fields.String(**describe("Email address, unique.", "ada@example.com"))
    first_name = fields.String(**describe("First name.", "Ada"))
    last_name = fields.String(**describe("Last name.", "Lovelace"))
    company_name = fields.String(allow_none=True, **describe("Company.", None))
    timezone = fields.String(**describe("Time zone in which times are shown.", "UTC"))
    is_admin = fields.Boolean(**describe("Whether the person runs the platform.", False))
    operator_role = fields.String(allow_none=True, validate=validate.OneOf(OPERATOR_ROLES), **ROLE_DESCRIPTION)
    owner_id = fields.String(allow_none=True, **describe("In whose team the person is; null for nobody's.", None))
    membership_id = fields.String(allow_none=True, **describe("The membership in that team; null without one.", None))
    invitations = fields.Nested(
        OpenInvitation, many=True, **describe("Invitations to the person's team that nobody has accepted yet.")
    )
    external_id = fields.String(allow_none=True, **describe("What the billing system calls the user.", "client-1042"))
    self_provisioning = fields.Boolean(**describe("Unbilled provisioning: never charged by the panel.", False))
    two_factor_enabled = fields.Boolean(**describe("Whether codes of an authenticator are asked for.", False))
    suspended_at = Time(allow_none=True, **describe("Since when the account is suspended.", None))
    suspended_reason = fields.String(allow_none=True, **describe("What the person is told about that.", None))
    last_login_at = Time(allow_none=True, **describe("When the person last signed in.", "2026-01-02T03:04:05.678Z"))
    instances = fields.Integer(**describe("Instances the person has.", 3))
    created_at = Time(**describe("When the account was made.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AccountIn(In):
    email = Email(required=True, **describe("Email address, unique.", "ada@example.com"))
    password = AccountPassword(
        load_default=None,
        allow_none=True,
        **describe(f"{PASSWORD_RULE} Without one the person cannot sign in on the pages yet.", "correct horse battery"),
    )
    first_name = Name(minimum=0, maximum=100, **describe("First name.", "Ada"))
    last_name = Name(minimum=0, maximum=100, **describe("Last name.", "Lovelace"))
    company_name = Name(minimum=0, allow_none=True, **describe("Company.", None))
    timezone = fields.String(
        validate=validate_time_zone, **describe("Time zone in which times are shown.", "Europe/Berlin")
    )


AccountLimits: Any = Patch.from_dict(make_limit_fields(limit_in_field), name="AccountLimits")
"""The limits of an account, as operators set them."""


class AccountPatch(AccountLimits):
    """Changes of an account by operators. Missing fields stay as they are."""

    email = Email(**describe("Email address, unique.", "ada@example.com"))
    first_name = Name(minimum=0, maximum=100, **describe("First name.", "Ada"))
    last_name = Name(minimum=0, maximum=100, **describe("Last name.", "Lovelace"))
    company_name = Name(minimum=0, allow_none=True, **describe("Company.", None))
    timezone = fields.String(
        validate=validate_time_zone, **describe("Time zone in which times are shown.", "Europe/Berlin")
    )
    self_provisioning = Bool(**describe("Unbilled provisioning: never charged by the panel.", True))


class AccountQuery(PageQuery):
    search = fields.String(
        validate=validate.Length(max=255), metadata={"description": "Part of a name, a company or an email address."}
    )
    kind = fields.String(
        validate=validate.OneOf(("customer", "member", "operator")),
        metadata={"description": "Only customers, only members of a customer's team, or only operators."},
    )
    suspended = fields.Boolean(metadata={"description": "Only those who are suspended, or only those who are not."})


class Suspension(In):
    reason = Text(maximum=1000, load_default=None, allow_none=True, lines=True, **SUSPENSION_REASON_DESCRIPTION)


class Promotion(In):
    role = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf(OPERATOR_ROLES),
        **describe("`full`, `support` or `read_only`; null ends it.", "support"),
    )


class NewPassword(Out):
    password = fields.String(**describe("The new password, in this answer and nowhere else.", "kX2v…"))


class Limit(Schema):
    value = fields.Integer(**describe("At most so many; 0 is unlimited.", 5))
    unlimited = fields.Boolean(**describe("Whether there is no limit.", False))
    used = fields.Integer(allow_none=True, **describe("How many there are; null where nothing is counted yet.", 2))


def limit_state_field(subject):
    return fields.Nested(Limit, **describe(f"{subject}: how many the account may have."))


LimitsOut = Schema.from_dict(make_limit_fields(limit_state_field), name="LimitsOut")
