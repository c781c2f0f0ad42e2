"""Ending an impersonation: back to the operator area."""

from flask import Blueprint, url_for
from flask_login import current_user

from panel.auth import impersonation, permissions
from panel.auth.browser_session import find_impersonator, get_home_url, require_page_permission
from panel.web.audit_view import audit_label
from panel.web.htmx import flash_message, redirect_to
from panel.web.translation import gettext as _

bp = Blueprint("impersonation", __name__, url_prefix="/impersonation")


@bp.post("/stop")
@require_page_permission(permissions.ANY_USER)
@audit_label("Stop acting as the customer")
def stop():
    if find_impersonator() is None:
        flash_message(_("You are not acting as a customer."), "info")
        return redirect_to(get_home_url())
    customer = current_user.account
    if not impersonation.end():
        return redirect_to(url_for("sign_in.show"))
    flash_message(_("You are no longer acting as %(email)s.", email=customer.email))
    return redirect_to(url_for("admin_accounts.show", account_id=customer.id))
