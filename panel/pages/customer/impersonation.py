"""Ending an impersonation: back to the operator area."""

from flask import Blueprint, url_for
from flask_login import current_user

from panel.auth import impersonation, permissions
from panel.auth.browser_session import find_impersonator, home_url, require_page_permission
from panel.web.audit_view import audit_label
from panel.web.htmx import flash_message, redirect_to

bp = Blueprint("impersonation", __name__, url_prefix="/impersonation")


@bp.post("/stop")
@require_page_permission(permissions.ANY_USER)
@audit_label("Stop acting as the person")
def stop():
    if find_impersonator() is None:
        flash_message("You are yourself: there is no impersonation to stop.", "info")
        return redirect_to(home_url())
    customer = current_user.account
    if not impersonation.end():
        return redirect_to(url_for("sign_in.show"))
    flash_message(f"You are yourself again, and no longer {customer.email}.")
    return redirect_to(url_for("admin_accounts.show", account_id=customer.id))
