"""API tokens of the platform, and of one customer."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.schemas.tokens import PLATFORM_TOKEN_KINDS
from panel.services import accounts, tokens
from panel.web.htmx import build_action_response, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_tokens", __name__, url_prefix="/admin")
NAVIGATION = NavigationEntry(
    "control", "API tokens", "admin_tokens.index", icon="api", permission="admin:tokens:read", position=10
)
READ_PERMISSION, WRITE_PERMISSION = "admin:tokens:read", "admin:tokens:write"


@bp.get("/tokens")
@require_page_permission(READ_PERMISSION)
def index():
    kind = request.args.get("kind") if request.args.get("kind") in PLATFORM_TOKEN_KINDS else None
    page = Page(tokens.select_platform(kind))
    tokens.refresh_last_used(page.rows)
    return render("admin/tokens/index.html", "rows", page=page)


@bp.get("/customers/<account_id>/tokens")
@require_page_permission(READ_PERMISSION)
def show_account_tokens(account_id):
    account = accounts.get(account_id)
    page = Page(tokens.select_of_account(account))
    tokens.refresh_last_used(page.rows)
    return render("admin/tokens/account_tokens.html", "rows", account=account, page=page)


@bp.post("/tokens/<token_id>/<any(on, off):state>")
@require_page_permission(WRITE_PERMISSION)
def switch(token_id, state):
    token = tokens.set_enabled(tokens.get_any_owner(token_id), state == "on")
    message = _("Token %(name)s enabled.", name=token.name)
    if state == "off":
        message = _("Token %(name)s disabled.", name=token.name)
    return build_action_response(message, list_url(token))


@bp.post("/tokens/<token_id>/revoke")
@require_page_permission(WRITE_PERMISSION)
def revoke(token_id):
    token = tokens.get_any_owner(token_id)
    tokens.revoke(token)
    return build_action_response(_("Token %(name)s revoked.", name=token.name), list_url(token))


def list_url(token):
    if token.account_id is None:
        return url_for(".index")
    return url_for(".show_account_tokens", account_id=token.account_id)
