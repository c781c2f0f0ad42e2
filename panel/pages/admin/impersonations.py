"""Acting as a customer, to see the pages that the customer sees."""

from flask import Blueprint, url_for

from panel.auth import impersonation
from panel.auth.browser_session import IMPERSONATE_PERMISSION, require_page_permission
from panel.services import impersonations
from panel.web.audit_view import audit_label
from panel.web.htmx import redirect_to

bp = Blueprint("admin_impersonations", __name__, url_prefix="/admin/customers")


@bp.post("/<account_id>/impersonate")
@require_page_permission(IMPERSONATE_PERMISSION)
@audit_label("Start acting as the customer")
def start(account_id):
    impersonation.begin(impersonations.get_customer(account_id))
    return redirect_to(url_for("overview.show"))
