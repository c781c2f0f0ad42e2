"""The audit log of the whole platform."""

from flask import Blueprint

from panel.auth.browser_session import me, page_can
from panel.core.db import session
from panel.models import Account
from panel.services import audit
from panel.web import audit_view, csv_export
from panel.web.htmx import render
from panel.web.paging import Page

bp = Blueprint("admin_audit", __name__, url_prefix="/admin/audit")
READ = "admin:audit:read"


@bp.get("")
@page_can(READ)
def index():
    filters = wanted()
    owner = filters["account_id"] and session.get(Account, filters["account_id"])
    context = {"wanted": filters, "owner": owner, "words": audit_view.words, "thing": audit_view.thing}
    return render("admin/audit/index.html", "rows", page=Page(audit.listing(**filters)), **context)


@bp.get("/export")
@page_can(READ)
def export():
    return csv_export.table("audit", audit.EXPORTED, audit.exported(audit.rows(audit.listing(**wanted()))))


@bp.get("/<entry_id>")
@page_can(READ)
def show(entry_id):
    entry = audit.get(entry_id)
    owner = entry.account_id and session.get(Account, entry.account_id)
    return render("admin/audit/show.html", entry=entry, owner=owner, words=audit_view.words, thing=audit_view.thing)


def wanted():
    return audit_view.wanted(me().timezone, "object_id", "account_id")
