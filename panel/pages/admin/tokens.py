"""API tokens of the platform, and of one customer."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import page_can
from panel.schemas.tokens import PLATFORM
from panel.services import accounts, tokens
from panel.web.htmx import did, render
from panel.web.paging import Page

bp = Blueprint("admin_tokens", __name__, url_prefix="/admin")
READ, WRITE = "admin:tokens:read", "admin:tokens:write"


@bp.get("/tokens")
@page_can(READ)
def index():
    kind = request.args.get("kind") if request.args.get("kind") in PLATFORM else None
    page = Page(tokens.platform(kind))
    tokens.freshen(page.rows)
    return render("admin/tokens/index.html", "rows", page=page)


@bp.get("/customers/<account_id>/tokens")
@page_can(READ)
def of_account(account_id):
    account = accounts.get(account_id)
    page = Page(tokens.of_account(account))
    tokens.freshen(page.rows)
    return render("admin/tokens/account_tokens.html", "rows", account=account, page=page)


@bp.post("/tokens/<token_id>/<any(on, off):way>")
@page_can(WRITE)
def switch(token_id, way):
    token = tokens.switch(tokens.get_any(token_id), way == "on")
    return did(f"The token {token.name} is {way}.", place(token))


@bp.post("/tokens/<token_id>/revoke")
@page_can(WRITE)
def revoke(token_id):
    token = tokens.get_any(token_id)
    tokens.revoke(token)
    return did(f"The token {token.name} is revoked.", place(token))


def place(token):
    if token.account_id is None:
        return url_for(".index")
    return url_for(".of_account", account_id=token.account_id)
