"""Customers, their teams and operators."""

from secrets import token_urlsafe

from flask import Blueprint, request, url_for
from marshmallow import fields

from panel.auth import login
from panel.auth.browser_session import ensure_permission, get_current_account, require_page_permission
from panel.auth.operator_roles import list_roles
from panel.core.errors import Invalid
from panel.models import Account
from panel.pages.admin import labels
from panel.schemas.accounts import AccountIn, AccountPatch, Promotion, Suspension
from panel.schemas.base import Name
from panel.schemas.constants import ACCOUNT_LIMITS
from panel.services import (
    account_limits,
    accounts,
    brands,
    factors,
    instances,
    operators,
    passwords,
    sessions,
    team,
    tokens,
)
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import translate

bp = Blueprint("admin_accounts", __name__, url_prefix="/admin/customers")
NAVIGATION = NavigationEntry(
    "customers",
    "Customers",
    "admin_accounts.index",
    icon="users",
    permission="admin:accounts:read",
    position=30,
    shortcut="c",
    further_blueprints=("admin_operator_roles",),
)
SEARCH_RESULTS = (
    SearchResults(
        "customer", "Customers", icon="users", url=lambda row_id: url_for("admin_accounts.show", account_id=row_id)
    ),
)
READ_PERMISSION, WRITE_PERMISSION, WRITE_OPERATORS = (
    "admin:accounts:read",
    "admin:accounts:write",
    "admin:operators:write",
)


class AccountSettingsForm(AccountPatch):
    """AccountPatch with the brand; an empty name clears the name."""

    brand_id = fields.UUID(allow_none=True)

    first_name = Name(minimum=0, maximum=100, load_default="")
    last_name = Name(minimum=0, maximum=100, load_default="")


ORDERS = {"last_sign_in": Account.last_login_at, "created": Account.id}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    kind = request.args.get("kind") if request.args.get("kind") in accounts.ACCOUNT_KINDS else None
    suspended = {"yes": True, "no": False}.get(request.args.get("suspended"))
    query = accounts.listing(request.args.get("search", "")[:255], kind=kind, suspended=suspended)
    page = Page(accounts.with_details(query), orders=ORDERS)
    return render("admin/accounts/index.html", "rows", page=page, roles=labels.OPERATOR_ROLES)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return render("admin/accounts/new.html", form=Form(AccountIn, initial={"timezone": "UTC"}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(AccountIn)
    if form.submit(accounts.create):
        flash_message(_("Customer %(email)s added.", email=form.result.email))
        return redirect_to(url_for(".show", account_id=form.result.id))
    return render("admin/accounts/new.html", "form", status=form.status, form=form)


def get_changeable(account_id):
    """Return the account for a change. Operators' accounts need the permission to change operators; otherwise support
    staff could take over an operator with more rights."""
    account = accounts.get(account_id)
    if account.is_admin:
        ensure_permission(WRITE_OPERATORS)
    return account


@bp.get("/<account_id>")
@require_page_permission(READ_PERMISSION)
def show(account_id):
    account = accounts.get(account_id)
    return render("admin/accounts/show.html", "rows", account=account, page=Page(instances.select_list_rows(account)))


@bp.get("/<account_id>/team")
@require_page_permission(READ_PERMISSION)
def members(account_id):
    account = accounts.get(account_id)
    return render("admin/accounts/team.html", "rows", account=account, page=Page(team.listing(account)))


@bp.get("/<account_id>/settings")
@require_page_permission(READ_PERMISSION)
def settings(account_id):
    account = accounts.get(account_id)
    return settings_page(account, Form(AccountSettingsForm, initial=account))


def settings_page(account, form, block=None):
    context = {"account": account, "form": form, "limits": list_limit_options(), "brands": brands.list_options()}
    return render("admin/accounts/settings.html", block, status=form.status, **context)


def save_settings(account, **data):
    if "brand_id" in data:
        brands.assign(account, data.pop("brand_id"))
    return accounts.update(account, **data)


def list_limit_options():
    """Return (name, label) of the limits whose resources this panel counts."""
    return [(name, translate(ACCOUNT_LIMITS[name])) for name in account_limits.COUNTED_COLUMNS]


@bp.post("/<account_id>/settings")
@require_page_permission(WRITE_PERMISSION)
def change(account_id):
    account = get_changeable(account_id)
    form = Form(AccountSettingsForm)
    if form.submit(lambda **data: save_settings(account, **data)):
        flash_message(_("Customer saved."))
        return redirect_to(url_for(".settings", account_id=account_id))
    return settings_page(accounts.get(account_id), form, "form")


@bp.get("/<account_id>/access")
@require_page_permission(READ_PERMISSION)
def access(account_id):
    return access_page(accounts.get(account_id), Form(Suspension))


def list_role_options():
    """Return (name, label, description) of each role that an operator may have."""
    return [
        (
            role["name"],
            labels.OPERATOR_ROLES.get(role["name"], role["name"]),
            labels.OPERATOR_ROLE_DESCRIPTIONS.get(role["name"], role["description"]),
        )
        for role in list_roles()
    ]


def access_page(account, form, block=None):
    access_facts = {
        "sessions": Page(sessions.listing(account)).total,
        "tokens": Page(tokens.select_of_account(account)).total,
        "any_factor": factors.has_second_factor(account),
        "passkey": factors.has_passkey(account),
        "owned_resources": accounts.describe_owned_resources(account),
    }
    context = {"account": account, "form": form, "roles": list_role_options(), **access_facts}
    return render("admin/accounts/access.html", block, status=form.status, **context)


@bp.post("/<account_id>/suspend")
@require_page_permission(WRITE_PERMISSION)
def suspend(account_id):
    account = get_changeable(account_id)
    if account == get_current_account():
        raise Invalid(_("You cannot suspend your own account."))
    form = Form(Suspension)
    if form.submit(lambda reason: accounts.suspend(account, reason)):
        flash_message(_("%(email)s suspended.", email=account.email))
        return redirect_to(url_for(".access", account_id=account_id))
    return access_page(accounts.get(account_id), form, "form")


@bp.post("/<account_id>/unsuspend")
@require_page_permission(WRITE_PERMISSION)
def unsuspend(account_id):
    account = accounts.unsuspend(get_changeable(account_id))
    flash_message(_("%(email)s resumed.", email=account.email))
    return redirect_to(url_for(".access", account_id=account_id))


@bp.post("/<account_id>/password")
@require_page_permission(WRITE_PERMISSION)
def reset_password(account_id):
    """Show the new password in the response itself, without a redirect, because it is not stored."""
    account, password = get_changeable(account_id), token_urlsafe(15)
    passwords.change(account, password, login.get_request_source())
    return render("admin/accounts/password.html", account=account, password=password)


@bp.post("/<account_id>/factors")
@require_page_permission(WRITE_PERMISSION)
def reset_factors(account_id):
    account = get_changeable(account_id)
    factors.reset(account, login.get_request_source())
    return build_action_response(
        _("All second factors of %(email)s removed.", email=account.email), url_for(".access", account_id=account_id)
    )


@bp.post("/<account_id>/sessions")
@require_page_permission(WRITE_PERMISSION)
def end_sessions(account_id):
    account = get_changeable(account_id)
    sessions.revoke_others(account)
    return build_action_response(
        _("All sessions of %(email)s ended.", email=account.email), url_for(".access", account_id=account_id)
    )


@bp.post("/<account_id>/role")
@require_page_permission(WRITE_OPERATORS)
def promote(account_id):
    form = Form(Promotion)
    if not form.submit(lambda role: operators.promote(accounts.get(account_id), role)):
        raise Invalid(" ".join(form.errors.values()))
    flash_message(_("Role changed. It takes effect immediately."))
    return redirect_to(url_for(".access", account_id=account_id))


@bp.post("/<account_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(account_id):
    account = get_changeable(account_id)
    if request.form.get("typed", "").strip().lower() != account.email:
        error = _("Type %(name)s to confirm. Nothing was removed.", name=account.email)
        raise Invalid(error, typed=error)
    if account == get_current_account():
        raise Invalid(_("You cannot remove your own account."))
    accounts.remove(account)
    flash_message(_("%(email)s removed.", email=account.email))
    return redirect_to(url_for(".index"))
