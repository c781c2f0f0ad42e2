"""Usage and its charges in the API."""

from marshmallow import fields, validate

from panel.core.messages import message
from panel.schemas.base import Out, PageQuery, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

MONTH_RULE = validate.Regexp(r"\A20[0-9]{2}-(0[1-9]|1[0-2])\Z", error=message("Must be a month such as 2026-11."))


class UsageQuery(PageQuery):
    month = fields.String(
        validate=MONTH_RULE, metadata={"description": "Month (UTC) such as `2026-11`. Defaults to the current one."}
    )


class UsageTotals(Out):
    month = fields.String(**describe("Calendar month (UTC).", "2026-11"))
    currency = fields.String(**describe("Currency of all amounts.", "EUR"))
    resources = fields.Integer(**describe("Number of resources.", 3))
    hours = fields.Integer(**describe("Completed hours of all resources.", 1460))
    charge = fields.Float(**describe("Charges; the ledger has them in whole cents.", 9.5))
    balance = fields.Float(**describe("Current balance of the account.", 31.2))


class UsageOut(Out):
    month = fields.String(**describe("Calendar month (UTC).", "2026-11"))
    resource_id = fields.String(**describe("Resource id. The resource may have been deleted.", EXAMPLE_ID))
    resource_type = fields.String(**describe("Resource type.", "instance"))
    resource_name = fields.String(**describe("Name of the resource when it was created.", "Shop front"))
    plan = fields.String(**describe("Plan in the last counted hour.", "S"))
    price = fields.Float(**describe("Monthly price, for 730 hours or more.", 4.5))
    billing_mode = fields.String(
        **describe("`cloud_service`, or why it is not charged: `self_provisioned` or `external`.", "cloud_service")
    )
    hours = fields.Integer(**describe("Charged hours.", 730))
    charge = fields.Float(**describe("Charges.", 4.5))
    last_hour = Time(**describe("Start of the last counted hour.", "2026-11-02T03:00:00Z"))


class AccountUsageOut(Out):
    user_id = fields.String(attribute="account_id", **describe("User id.", EXAMPLE_ID))
    email = fields.String(
        allow_none=True, **describe("Email address of the user; null if the user was deleted.", "a@example.com")
    )
    resources = fields.Integer(**describe("Number of resources.", 3))
    hours = fields.Integer(**describe("Completed hours of all resources.", 1460))
    charge = fields.Float(**describe("Charges.", 9.5))
