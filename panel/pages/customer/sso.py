"""Arriving by a link that a billing system made. Opening the link shows a page that sends itself on; only that uses the
link up, so previews and scanners, which open every link, leave it as it is."""

from flask import Blueprint, url_for

from panel.auth import login, permissions
from panel.auth.browser_session import page_can
from panel.core.errors import NotFound
from panel.services import sso
from panel.web.htmx import go, render

bp = Blueprint("sso", __name__)


@bp.get("/sso/<secret>")
@page_can(permissions.PUBLIC)
def show(secret):
    try:
        return render("user/sso/show.html", account=sso.opened(secret), secret=secret)
    except NotFound as gone:
        return closed(gone)


@bp.post("/sso/<secret>")
@page_can(permissions.PUBLIC)
def arrive(secret):
    try:
        account, leads_to = sso.use(secret)
    except NotFound as gone:
        return closed(gone)
    admitted = login.admit(account)
    return go(leads_to if admitted else url_for("sign_in.second_step", next=leads_to))


def closed(gone):
    return render("user/sso/link_expired.html", status=gone.status, message=gone.message)
