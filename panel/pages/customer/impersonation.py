"""The way back for an operator who looks at the panel as a customer."""

from flask import Blueprint, url_for
from flask_login import current_user

from panel.auth import impersonation, permissions
from panel.auth.browser_session import home, impersonator, page_can
from panel.web.htmx import go, say

bp = Blueprint("impersonation", __name__, url_prefix="/impersonation")


@bp.post("/stop")
@page_can(permissions.ANY_USER)
def stop():
    if impersonator() is None:
        say("You are yourself: there is no impersonation to stop.", "info")
        return go(home())
    customer = current_user.account
    if not impersonation.end():
        return go(url_for("sign_in.show"))
    say(f"You are yourself again, and no longer {customer.email}.")
    return go(url_for("admin_accounts.show", account_id=customer.id))
