"""What the account has left, what it uses and what that costs."""

from flask import Blueprint

from panel import clock, downloads, months
from panel.auth.browser import page_can, viewer
from panel.htmx import render
from panel.paging import Page
from panel.services import credits, settings, usage

bp = Blueprint("billing", __name__, url_prefix="/billing")


@bp.get("")
@page_can("billing.view")
def show():
    month = months.asked()
    return render(
        "user/billing/show.html",
        "rows",
        month=month,
        months=months.choices(viewer()),
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
    month = months.asked()
    return downloads.table(f"usage-{month}", usage.EXPORTED, usage.exported(month, viewer()))


@bp.get("/entries.csv")
@page_can("billing.view")
def entries_sheet():
    return downloads.table("ledger", credits.EXPORTED, credits.exported(viewer()))
