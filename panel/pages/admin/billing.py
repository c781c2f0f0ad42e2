"""Usage and balance of all customers, and the ledger of one."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.db import session
from panel.core.messages import message
from panel.schemas.credits import CreditIn
from panel.services import accounts, credits, settings, usage
from panel.web import csv_export, month_picker
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_billing", __name__, url_prefix="/admin/billing")
NAVIGATION = NavigationEntry(
    "customers", "Billing", "admin_billing.index", icon="credit-card", permission="admin:billing:read", position=50
)
READ_PERMISSION, WRITE_PERMISSION = "admin:billing:read", "admin:billing:write"
MAX_LISTED_RESOURCES = 100
"""Maximum of resources of a customer on the page; the CSV file has all."""
ENTRY_KIND_OPTIONS = (
    ("credit", lazy_gettext("Credit (payment received)")),
    ("refund", lazy_gettext("Refund")),
    ("adjustment", lazy_gettext("Adjustment (positive or negative)")),
)


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    month = month_picker.parse_requested_month()
    return render(
        "admin/billing/index.html",
        "rows",
        month=month,
        months=month_picker.list_month_choices(),
        totals=usage.get_totals(month),
        page=Page(usage.select_by_account(month)),
        on=settings.get().billing_enabled,
    )


@bp.get("/ledger")
@require_page_permission(READ_PERMISSION)
def ledger():
    return render("admin/billing/ledger.html", "rows", page=Page(credits.listing()))


@bp.get("/usage.csv")
@require_page_permission(READ_PERMISSION)
def usage_sheet():
    month = month_picker.parse_requested_month()
    return csv_export.build_csv_response(f"usage-{month}", usage.EXPORT_COLUMNS, usage.iter_export(month))


@bp.get("/customers/<account_id>")
@require_page_permission(READ_PERMISSION)
def customer(account_id):
    return customer_page(accounts.get(account_id), Form(CreditIn, initial={"kind": "credit"}))


def customer_page(account, form, block="rows"):
    month = month_picker.parse_requested_month()
    return render(
        "admin/billing/customer.html",
        block,
        status=form.status,
        account=account,
        form=form,
        kinds=ENTRY_KIND_OPTIONS,
        month=month,
        months=month_picker.list_month_choices(account),
        totals=usage.get_totals(month, account),
        used=session.scalars(usage.select_month_rows(month, account).limit(MAX_LISTED_RESOURCES)).all(),
        page=Page(credits.listing(account)),
    )


@bp.post("/customers/<account_id>")
@require_page_permission(WRITE_PERMISSION)
def give(account_id):
    account = accounts.get(account_id)
    form = Form(CreditIn)
    if form.submit(lambda **data: credits.grant(account, actor=get_current_actor(), **data)):
        flash_message(_("Ledger entry added."))
        return redirect_to(url_for(".customer", account_id=account.id))
    return customer_page(account, form, "form")


@bp.post("/customers/<account_id>/entries/<entry_id>/take-back")
@require_page_permission(WRITE_PERMISSION)
def take_back(account_id, entry_id):
    """Revoke a credit entry by adding an adjustment. The ledger keeps both."""
    entry = credits.get(entry_id, account_id)
    credits.correct(entry, amount=0, actor=get_current_actor(), description=message("Reversed"))
    return build_action_response(_("Ledger entry reversed."), url_for(".customer", account_id=account_id))
