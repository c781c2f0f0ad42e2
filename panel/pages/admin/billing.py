"""What customers use and what they owe: all of them, and one customer's ledger."""

from flask import Blueprint, url_for

from panel.auth.browser_session import actor, page_can
from panel.core.db import session
from panel.schemas.credits import CreditIn
from panel.services import accounts, credits, settings, usage
from panel.web import csv_export, month_picker
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("admin_billing", __name__, url_prefix="/admin/billing")
READ, WRITE = "admin:billing:read", "admin:billing:write"
MOST = 100
"""How many resources of a customer are shown; the file has all."""
KINDS = (
    ("credit", "Credit that was paid"),
    ("refund", "Something paid back"),
    ("adjustment", "An adjustment, either way"),
)


@bp.get("")
@page_can(READ)
def index():
    month = month_picker.asked()
    return render(
        "admin/billing/index.html",
        "rows",
        month=month,
        months=month_picker.choices(),
        totals=usage.totals(month),
        page=Page(usage.by_account(month), columns=True),
        on=settings.get().billing_enabled,
    )


@bp.get("/ledger")
@page_can(READ)
def ledger():
    return render("admin/billing/ledger.html", "rows", page=Page(credits.listing()))


@bp.get("/usage.csv")
@page_can(READ)
def usage_sheet():
    month = month_picker.asked()
    return csv_export.table(f"usage-{month}", usage.EXPORTED, usage.exported(month))


@bp.get("/customers/<account_id>")
@page_can(READ)
def customer(account_id):
    return customer_page(accounts.get(account_id), Form(CreditIn, known={"kind": "credit"}))


def customer_page(account, form, block="rows"):
    month = month_picker.asked()
    return render(
        "admin/billing/customer.html",
        block,
        status=form.status,
        account=account,
        form=form,
        kinds=KINDS,
        month=month,
        months=month_picker.choices(account),
        totals=usage.totals(month, account),
        used=session.scalars(usage.of_month(month, account).limit(MOST)).all(),
        page=Page(credits.listing(account)),
    )


@bp.post("/customers/<account_id>")
@page_can(WRITE)
def give(account_id):
    account = accounts.get(account_id)
    form = Form(CreditIn)
    if form.submit(lambda **data: credits.give(account, actor=actor(), **data)):
        say("The amount is booked.")
        return go(url_for(".customer", account_id=account.id))
    return customer_page(account, form, "form")


@bp.post("/customers/<account_id>/entries/<entry_id>/take-back")
@page_can(WRITE)
def take_back(account_id, entry_id):
    """The entry stays; an adjustment takes away what it counted as."""
    credits.correct(credits.get(entry_id, account_id), amount=0, actor=actor(), description="Taken back")
    return did("The entry is taken back.", url_for(".customer", account_id=account_id))
