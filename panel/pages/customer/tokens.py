"""API tokens of a person."""

from datetime import timedelta

from flask import Blueprint, current_app, request, url_for
from marshmallow import fields, validate
from werkzeug.datastructures import MultiDict

from panel.auth import permission_check, permissions, permissions_in_use
from panel.auth.browser_session import get_current_access, require_page_permission
from panel.auth.tokens import get_source_address
from panel.core import clock
from panel.schemas.base import In
from panel.schemas.constants import SCOPE_FAMILIES, SCOPES
from panel.schemas.tokens import TokenIn, TokenPatch
from panel.services import tokens
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, list_closed_families
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("tokens", __name__, url_prefix="/api-tokens")
NAVIGATION = NavigationEntry(
    "account", "API tokens", "tokens.index", icon="api", permission=permissions.ANY_USER, position=40
)
MANAGE_PERMISSION = "api_tokens.manage"

DEPLOY_FAMILIES = (
    "instances",
    "vpcs",
    "volumes",
    "security_groups",
    "static_ips",
    "ssh_keys",
    "user_scripts",
    "projects",
)
SCOPE_PRESETS = {
    "read": (lazy_gettext("Read only"), lambda family, verb: verb == "read"),
    "metrics": (lazy_gettext("Metrics only"), lambda family, verb: (family, verb) == ("metrics", "read")),
    "deploy": (
        lazy_gettext("Deploy"),
        lambda family, verb: family in DEPLOY_FAMILIES or (family, verb) == ("images", "read"),
    ),
    "all": (lazy_gettext("Everything"), lambda family, verb: True),
}
"""The presets of scopes: {name: (label, filter of the scopes in use)}"""
ONE_HOUR, DAY_HOURS = 1, 24
TOKEN_LIFETIMES = (
    (DAY_HOURS, lazy_gettext("1 day")),
    (7 * DAY_HOURS, lazy_gettext("7 days")),
    (30 * DAY_HOURS, lazy_gettext("30 days")),
    (90 * DAY_HOURS, lazy_gettext("90 days")),
    (365 * DAY_HOURS, lazy_gettext("1 year")),
)
EDIT_LIFETIMES = ((ONE_HOUR, lazy_gettext("1 hour")), *TOKEN_LIFETIMES)


class TokenForm(TokenIn):
    class Meta(TokenIn.Meta):
        exclude = ("expires_at",)

    hours = fields.Integer(
        strict=True, load_default=None, validate=validate.OneOf([hours for hours, label in TOKEN_LIFETIMES])
    )


class EditForm(TokenPatch):
    class Meta(TokenPatch.Meta):
        exclude = ("expires_at",)

    hours = fields.Integer(strict=True, validate=validate.OneOf([hours for hours, label in EDIT_LIFETIMES]))


class PermissionCheckForm(In):
    token = fields.String(required=True, validate=validate.Length(1, 200))
    request = fields.String(required=True, validate=validate.Length(1, 400))
    address = fields.IP(required=True)


def compute_expiry(hours):
    return clock.now() + timedelta(hours=hours)


@bp.get("")
@require_page_permission(permissions.ANY_USER)
def index():
    page = Page(tokens.listing(get_current_access(), tokens.PERSONAL_KINDS))
    tokens.refresh_last_used(page.rows)
    return render("customer/tokens/index.html", "rows", page=page)


@bp.get("/new")
@require_page_permission(MANAGE_PERMISSION)
def new():
    return form_page(Form(TokenForm, initial={"hours": 90 * DAY_HOURS}))


@bp.post("/new")
@require_page_permission(MANAGE_PERMISSION)
def create():
    """Create a token. The form's `fill` buttons, which work without JavaScript, only fill in fields."""
    form = Form(TokenForm)
    if "fill" in request.form:
        form.sent = fill_form(request.form)
    elif form.submit(create_token):
        token, value = form.result
        flash_secrets.store(token.id, value)
        return redirect_to(url_for(".created", token_id=token.id))
    return form_page(form)


def list_offered_scopes():
    """Return the scopes that an operation requires and that this account can use now."""
    closed_families = list_closed_families(get_current_access())
    return {scope for scope in permissions_in_use.list_used_scopes() if scope.partition(":")[0] not in closed_families}


def list_preset_scopes(key):
    """Return the scopes of a preset, in the order of the families."""
    has = SCOPE_PRESETS[key][1]
    offered_scopes = list_offered_scopes()
    return [scope for scope in SCOPES if scope in offered_scopes and has(*scope.split(":"))]


def form_page(form):
    presets = {key: label for key, (label, has) in SCOPE_PRESETS.items() if list_preset_scopes(key)}
    context = {
        "families": SCOPE_FAMILIES,
        "presets": presets,
        "token_lifetimes": TOKEN_LIFETIMES,
        "offered_scopes": list_offered_scopes(),
    }
    return render("customer/tokens/new.html", "form", status=form.status, form=form, **context)


def create_token(hours=None, **values):
    return tokens.create(get_current_access(), expires_at=compute_expiry(hours) if hours else None, **values)


def fill_form(form_values):
    """Return the form values with those of a `fill` button: a preset, a column of scopes, or the client's address."""
    action, _separator, preset = form_values["fill"].partition(":")
    filled = MultiDict(form_values)
    if action == "preset" and preset in SCOPE_PRESETS:
        filled.setlist("scopes", list_preset_scopes(preset))
    if action == "column":
        column = {scope for scope in list_offered_scopes() if scope.endswith(f":{preset}")}
        selected = set(form_values.getlist("scopes"))
        filled.setlist("scopes", list(selected - column if column <= selected else selected | column))
    if action == "address":
        addresses = form_values.get("allowed_ips", "").split()
        filled["allowed_ips"] = "\n".join(dict.fromkeys([*addresses, str(get_source_address())]))
    return filled


@bp.get("/<token_id>/made")
@require_page_permission(MANAGE_PERMISSION)
def created(token_id):
    """Show the new token's value once. A reload redirects to the token's page."""
    value = flash_secrets.pop(token_id)
    if value is None:
        return redirect_to(url_for(".edit", token_id=token_id))
    address = current_app.extensions["config"].public_url.rstrip("/")
    curl = f"curl -H 'Authorization: Bearer {value}' {address}/api/connect"
    return render(
        "customer/tokens/created.html", token=tokens.get(token_id, get_current_access()), value=value, curl=curl
    )


@bp.get("/<token_id>")
@require_page_permission(permissions.ANY_USER)
def edit(token_id):
    token = tokens.get(token_id, get_current_access())
    return edit_page(token, Form(EditForm, initial=token))


@bp.post("/<token_id>")
@require_page_permission(MANAGE_PERMISSION)
def update(token_id):
    token = tokens.get(token_id, get_current_access())
    form = Form(EditForm)
    if "fill" in request.form:
        form.sent = fill_form(request.form)
    elif form.submit(lambda **changes: narrow_token(token, **changes)):
        flash_message(_("Token %(name)s saved.", name=token.name))
        return redirect_to(url_for(".index"))
    return edit_page(token, form)


def narrow_token(token, hours=None, **changes):
    return tokens.update(token, **changes, **({"expires_at": compute_expiry(hours)} if hours else {}))


def edit_page(token, form):
    tokens.refresh_last_used([token])
    remaining = [
        choice for choice in EDIT_LIFETIMES if token.expires_at is None or compute_expiry(choice[0]) < token.expires_at
    ]
    context = {"token": token, "families": SCOPE_FAMILIES, "offered_scopes": token.scopes, "token_lifetimes": remaining}
    return render("customer/tokens/edit.html", "form", status=form.status, form=form, **context)


@bp.post("/<token_id>/revoke")
@require_page_permission(permissions.PERSONAL)
def revoke(token_id):
    token = tokens.get(token_id, get_current_access())
    tokens.revoke(token)
    if "leave" not in request.form:
        return build_action_response(_("Token %(name)s revoked.", name=token.name), url_for(".index"))
    flash_message(_("Token %(name)s revoked.", name=token.name))
    return redirect_to(url_for(".index"))


@bp.get("/test")
@require_page_permission(permissions.ANY_USER)
def test():
    return test_page(
        Form(PermissionCheckForm, initial={"request": "GET /api/instances", "address": str(get_source_address())})
    )


@bp.post("/test")
@require_page_permission(permissions.ANY_USER)
def run_test():
    form = Form(PermissionCheckForm)
    form.submit(
        lambda token, request, address: permission_check.explain_request(token, request, address, get_current_access())
    )
    return test_page(form)


def test_page(form):
    context = {"check_result": form.result, "operations": permission_check.list_operations()}
    return render("customer/tokens/permission_check.html", "form", status=form.status, form=form, **context)
