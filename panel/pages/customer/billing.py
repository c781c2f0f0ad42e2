"""What the account has left, what it uses and what that costs."""

from flask import Blueprint

from panel.auth.browser_session import page_can, viewer
from panel.core import clock
from panel.services import credits, settings, usage
from panel.web import csv_export, month_picker
from panel.web.htmx import render
from panel.web.paging import Page

bp = Blueprint("billing", __name__, url_prefix="/billing")


@bp.get("")
@page_can("billing.view")
def show():
    month = month_picker.asked()
    return render(
        "user/billing/show.html",
        "rows",
        month=month,
        months=month_picker.choices(viewer()),
        totals=usage.totals(month, viewer()),
        page=Page(usage.of_month(month, viewer())),
        **standing(),
    )


@bp.get("/entries")
@page_can("billing.view")
def entries():
    return render("user/billing/entries.html", "rows", page=Page(credits.listing(viewer())), **standing())


def standing():
    """What stands above every page here."""
    now = usage.totals(usage.month_of(clock.now()), viewer())
    mode = "unbilled" if viewer().unbilled else None if settings.get().billing_enabled else "off"
    return {"balance": credits.balance(viewer()), "now": now, "mode": mode}


@bp.get("/usage.csv")
@page_can("billing.view")
def usage_sheet():
    month = month_picker.asked()
    return csv_export.table(f"usage-{month}", usage.EXPORTED, usage.exported(month, viewer()))


@bp.get("/entries.csv")
@page_can("billing.view")
def entries_sheet():
    return csv_export.table("ledger", credits.EXPORTED, credits.exported(viewer()))
