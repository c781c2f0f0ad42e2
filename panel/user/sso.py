"""Arriving by a link that a billing system made. Opening the link shows a page that sends itself on; only that uses the
link up, so previews and scanners, which open every link, leave it as it is."""

from flask import Blueprint, url_for

from panel.auth import entry, permissions
from panel.auth.browser import page_can
from panel.errors import NotFound
from panel.htmx import go, render
from panel.services import sso

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
    admitted = entry.admit(account)
    return go(leads_to if admitted else url_for("sign_in.second_step", next=leads_to))


def closed(gone):
    return render("user/sso/closed.html", status=gone.status, message=gone.message)
