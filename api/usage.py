"""Usage and its costs: a customer's own, and all accounts' for operators."""

from flask import current_app
from marshmallow import fields

from api import kit
from panel.core import clock
from panel.schemas.base import describe
from panel.schemas.usage import AccountUsageOut, UsageOut, UsageQuery, UsageTotals
from panel.services import accounts, credits, usage

user = kit.User("usage", __name__, description="Usage and charges")
admin = kit.Admin("usage", __name__, description="Usage and charges")

TOTALS_FIELD = fields.Nested(UsageTotals, **describe("Totals of the month."))
USAGE_REPORT = type(kit.build_page_schema(UsageOut)).from_dict({"totals": TOTALS_FIELD}, name="UsageReport")()
RESOURCES_FIELD = fields.Nested(UsageOut, many=True, **describe("Usage of each resource, newest resource first."))
META_FIELD = fields.Nested(kit.Meta, **describe("Paging: page number, page size and total."))
REPORT_RESPONSE = kit.Schema.from_dict(
    {"totals": TOTALS_FIELD, "resources": RESOURCES_FIELD, "meta": META_FIELD}, name="Usage"
)


def get_current_month():
    return usage.make_month_key(clock.now())


def compute_month_totals(account, month):
    account_values = {"currency": current_app.extensions["config"].currency, "balance": credits.get_balance(account)}
    return usage.get_totals(month, account) | account_values


def build_report(account, month=None):
    """Return totals and resources of an account's month (default: the current one)."""
    month = month or get_current_month()
    rows = kit.paginate(usage.select_month_rows(month, account))
    return {"totals": compute_month_totals(account, month), "resources": rows["__rows__"], "meta": rows["meta"]}


@user.get("/usage-report", op="report", can="billing.view", query=UsageQuery, out=USAGE_REPORT)
def show_report(query):
    """Get usage and charges of a month.

    Completed hours (UTC) are counted. 730 hours cost the plan's price at the time the resource was created; further
    hours of the same month are free. Stopped instances are charged as well, because their disk and addresses stay
    allocated. The hour of creation is charged in full; nothing is charged after a destroy request.
    """
    month = query.pop("month", get_current_month())
    return {
        **kit.paginate(usage.select_month_rows(month, kit.get_current_access())),
        "totals": compute_month_totals(kit.get_current_access(), month),
    }


@admin.get(
    "/cloud-service/usage-report",
    op="list",
    can="admin:billing:read",
    query=UsageQuery,
    out=kit.build_admin_page_schema(AccountUsageOut),
)
def list_by_account(query):
    """List usage and charges of all users for a month.

    `month` is a calendar month in UTC, by default the current one.
    """
    month = query.pop("month", get_current_month())
    return kit.paginate(usage.select_by_account(month))


@admin.get(
    "/cloud-service/usage-reports/<account_id>",
    op="get",
    can="admin:billing:read",
    query=UsageQuery,
    out=REPORT_RESPONSE,
)
def show_by_account(query, account_id):
    """Get the usage of a user for a month, by resource.

    `month` is a calendar month in UTC, by default the current one. Deleted resources are included. Returns 404 if the
    user does not exist.
    """
    return build_report(accounts.get(account_id), **query)
