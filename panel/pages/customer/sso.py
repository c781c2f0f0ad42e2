"""Signing in by a one-time link of a billing system.

Opening the link shows a page that submits itself; only this POST redeems the link, so link previews and scanners do
not use it up."""

from flask import Blueprint, url_for

from panel.auth import login, permissions
from panel.auth.browser_session import require_page_permission
from panel.core.errors import NotFound
from panel.services import sso
from panel.web.audit_view import audit_label
from panel.web.htmx import redirect_to, render

bp = Blueprint("sso", __name__)


@bp.get("/sso/<secret>")
@require_page_permission(permissions.PUBLIC)
def show(secret):
    try:
        return render("customer/sso/show.html", account=sso.get_account(secret), secret=secret)
    except NotFound as error:
        return closed_page(error)


@bp.post("/sso/<secret>")
@require_page_permission(permissions.PUBLIC)
@audit_label("Sign in from the billing system")
def arrive(secret):
    try:
        account, page_url = sso.redeem(secret)
    except NotFound as error:
        return closed_page(error)
    admitted = login.start_login(account)
    return redirect_to(page_url if admitted else url_for("sign_in.second_step", next=page_url))


def closed_page(error):
    return render("customer/sso/link_expired.html", status=error.status, message=error.message)
