"""Signing in as a customer, to see what the customer sees."""

from flask import Blueprint, url_for

from panel.auth import impersonation
from panel.auth.browser_session import IMPERSONATE, page_can
from panel.services import impersonations
from panel.web.htmx import go

bp = Blueprint("admin_impersonations", __name__, url_prefix="/admin/customers")


@bp.post("/<account_id>/impersonate")
@page_can(IMPERSONATE)
def start(account_id):
    impersonation.begin(impersonations.customer(account_id))
    return go(url_for("overview.show"))
