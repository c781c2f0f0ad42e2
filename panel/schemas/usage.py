"""Usage and its charges in the API."""

from marshmallow import fields, validate

from panel.core.messages import message
from panel.schemas.base import Out, PageQuery, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

MONTH_RULE = validate.Regexp(r"\A20[0-9]{2}-(0[1-9]|1[0-2])\Z", error=message("Must be a month like 2026-11."))


class UsageQuery(PageQuery):
    month = fields.String(
        validate=MONTH_RULE, metadata={"description": "Which month (UTC), as `2026-11`; by default the current one."}
    )


class UsageTotals(Out):
    month = fields.String(**describe("The calendar month (UTC).", "2026-11"))
    currency = fields.String(**describe("The currency of all amounts.", "EUR"))
    resources = fields.Integer(**describe("How many resources there were.", 3))
    hours = fields.Integer(**describe("Hours that are over, of all resources.", 1460))
    charge = fields.Float(**describe("What they cost; the ledger has it in whole cents.", 9.5))
    balance = fields.Float(**describe("The account's credit now.", 31.2))


class UsageOut(Out):
    month = fields.String(**describe("The calendar month (UTC).", "2026-11"))
    resource_id = fields.String(**describe("The resource, which may be gone.", EXAMPLE_ID))
    resource_type = fields.String(**describe("Its kind.", "instance"))
    resource_name = fields.String(**describe("Its name when it was made.", "Shop front"))
    plan = fields.String(**describe("Its plan in the last hour.", "S"))
    price = fields.Float(**describe("The plan's price a month, of 730 hours or more.", 4.5))
    billing_mode = fields.String(
        **describe("`cloud_service`, or why it costs nothing here: `self_provisioned`, `external`.", "cloud_service")
    )
    hours = fields.Integer(**describe("Hours in which it was there.", 730))
    charge = fields.Float(**describe("What they cost.", 4.5))
    last_hour = Time(**describe("When the last of these hours began.", "2026-11-02T03:00:00Z"))


class AccountUsageOut(Out):
    user_id = fields.String(attribute="account_id", **describe("Whose usage.", EXAMPLE_ID))
    email = fields.String(
        allow_none=True, **describe("Their email address; null when the user is gone.", "a@example.com")
    )
    resources = fields.Integer(**describe("How many resources there were.", 3))
    hours = fields.Integer(**describe("Hours that are over, of all resources.", 1460))
    charge = fields.Float(**describe("What they cost.", 9.5))
