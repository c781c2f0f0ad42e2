"""The account's balance, usage and costs."""

from flask import Blueprint

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.core import clock
from panel.services import credits, settings, usage
from panel.web import csv_export, month_picker
from panel.web.htmx import render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page

bp = Blueprint("billing", __name__, url_prefix="/billing")
NAVIGATION = NavigationEntry(
    "account", "Billing", "billing.show", icon="credit-card", permission="billing.view", position=60
)


@bp.get("")
@require_page_permission("billing.view")
def show():
    month = month_picker.parse_requested_month()
    return render(
        "customer/billing/show.html",
        "rows",
        month=month,
        months=month_picker.list_month_choices(get_current_access()),
        totals=usage.get_totals(month, get_current_access()),
        page=Page(usage.select_month_rows(month, get_current_access())),
        **build_balance_context(),
    )


@bp.get("/entries")
@require_page_permission("billing.view")
def entries():
    return render(
        "customer/billing/entries.html",
        "rows",
        page=Page(credits.listing(get_current_access())),
        **build_balance_context(),
    )


def build_balance_context():
    """Return the context that all billing pages share."""
    now = usage.get_totals(usage.make_month_key(clock.now()), get_current_access())
    mode = "unbilled" if get_current_access().unbilled else None if settings.get().billing_enabled else "off"
    return {"balance": credits.get_balance(get_current_access()), "now": now, "mode": mode}


@bp.get("/usage.csv")
@require_page_permission("billing.view")
def usage_sheet():
    month = month_picker.parse_requested_month()
    return csv_export.build_csv_response(
        f"usage-{month}", usage.EXPORT_COLUMNS, usage.iter_export(month, get_current_access())
    )


@bp.get("/entries.csv")
@require_page_permission("billing.view")
def entries_sheet():
    return csv_export.build_csv_response("ledger", credits.EXPORT_COLUMNS, credits.iter_export(get_current_access()))
