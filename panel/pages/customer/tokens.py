"""API tokens: what a person's programs may do."""

from datetime import timedelta

from flask import Blueprint, current_app, request, url_for
from marshmallow import fields, validate
from werkzeug.datastructures import MultiDict

from panel.auth import permission_check, permissions, permissions_in_use
from panel.auth.browser_session import page_can, viewer
from panel.auth.tokens import source_address
from panel.core import clock
from panel.schemas.base import In
from panel.schemas.constants import FAMILIES, SCOPES
from panel.schemas.tokens import TokenIn, TokenPatch
from panel.services import tokens
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("tokens", __name__, url_prefix="/api-tokens")
MANAGE = "api_tokens.manage"

DEPLOYED = ("instances", "vpcs", "volumes", "security_groups", "static_ips", "ssh_keys", "user_scripts", "projects")
PRESETS = {
    "read": ("Read only", lambda family, verb: verb == "read"),
    "metrics": ("Metrics only", lambda family, verb: (family, verb) == ("metrics", "read")),
    "deploy": ("Deploy", lambda family, verb: family in DEPLOYED or (family, verb) == ("images", "read")),
    "all": ("Everything", lambda family, verb: True),
}
"""What the buttons of the form tick: which of the scopes that an operation of this panel needs."""
HOUR, DAY = 1, 24
LIVES = ((DAY, "1 day"), (7 * DAY, "7 days"), (30 * DAY, "30 days"), (90 * DAY, "90 days"), (365 * DAY, "1 year"))
SHORTER = ((HOUR, "1 hour"), *LIVES)


class TokenForm(TokenIn):
    class Meta(TokenIn.Meta):
        exclude = ("expires_at",)

    hours = fields.Integer(strict=True, load_default=None, validate=validate.OneOf([hours for hours, _ in LIVES]))


class EditForm(TokenPatch):
    class Meta(TokenPatch.Meta):
        exclude = ("expires_at",)

    hours = fields.Integer(strict=True, validate=validate.OneOf([hours for hours, _ in SHORTER]))


class TrialForm(In):
    token = fields.String(required=True, validate=validate.Length(1, 200))
    request = fields.String(required=True, validate=validate.Length(1, 400))
    address = fields.IP(required=True)


def end(hours):
    return clock.now() + timedelta(hours=hours)


@bp.get("")
@page_can(permissions.ANY_USER)
def index():
    page = Page(tokens.listing(viewer(), tokens.PERSONS))
    tokens.freshen(page.rows)
    return render("user/tokens/index.html", "rows", page=page)


@bp.get("/new")
@page_can(MANAGE)
def new():
    return form_page(Form(TokenForm, known={"hours": 90 * DAY}))


@bp.post("/new")
@page_can(MANAGE)
def create():
    """The buttons that fill the form in are part of it, so that they work without JavaScript: nothing is made then."""
    form = Form(TokenForm)
    if "fill" in request.form:
        form.sent = filled(request.form)
    elif form.submit(make):
        token, value = form.result
        flash_secrets.keep(token.id, value)
        return go(url_for(".made", token_id=token.id))
    return form_page(form)


def preset(key):
    """The scopes of a preset, in the order of the families."""
    _, has = PRESETS[key]
    return [scope for scope in SCOPES if scope in permissions_in_use.used_scopes() and has(*scope.split(":"))]


def form_page(form):
    presets = {key: label for key, (label, _) in PRESETS.items() if preset(key)}
    around = {"families": FAMILIES, "presets": presets, "lives": LIVES, "held": permissions_in_use.used_scopes()}
    return render("user/tokens/new.html", "form", status=form.status, form=form, **around)


def make(hours=None, **wanted):
    return tokens.create(viewer(), expires_at=end(hours) if hours else None, **wanted)


def filled(sent):
    """The form with what one of its buttons fills in: a preset, a whole column of scopes, or the person's address."""
    what, _, which = sent["fill"].partition(":")
    made = MultiDict(sent)
    if what == "preset" and which in PRESETS:
        made.setlist("scopes", preset(which))
    if what == "column":
        column = {scope for scope in permissions_in_use.used_scopes() if scope.endswith(f":{which}")}
        chosen = set(sent.getlist("scopes"))
        made.setlist("scopes", list(chosen - column if column <= chosen else chosen | column))
    if what == "address":
        known = sent.get("allowed_ips", "").split()
        made["allowed_ips"] = "\n".join(dict.fromkeys([*known, str(source_address())]))
    return made


@bp.get("/<token_id>/made")
@page_can(MANAGE)
def made(token_id):
    """The value, once. A page that is loaded again does not have it."""
    value = flash_secrets.take(token_id)
    if value is None:
        return go(url_for(".edit", token_id=token_id))
    address = current_app.extensions["config"].public_url.rstrip("/")
    curl = f"curl -H 'Authorization: Bearer {value}' {address}/api/connect"
    return render("user/tokens/created.html", token=tokens.get(token_id, viewer()), value=value, curl=curl)


@bp.get("/<token_id>")
@page_can(permissions.ANY_USER)
def edit(token_id):
    token = tokens.get(token_id, viewer())
    return edit_page(token, Form(EditForm, known=token))


@bp.post("/<token_id>")
@page_can(MANAGE)
def update(token_id):
    token = tokens.get(token_id, viewer())
    form = Form(EditForm)
    if "fill" in request.form:
        form.sent = filled(request.form)
    elif form.submit(lambda **changes: narrow(token, **changes)):
        say(f"The token {token.name} is changed.")
        return go(url_for(".index"))
    return edit_page(token, form)


def narrow(token, hours=None, **changes):
    return tokens.update(token, **changes, **({"expires_at": end(hours)} if hours else {}))


def edit_page(token, form):
    tokens.freshen([token])
    left = [choice for choice in SHORTER if token.expires_at is None or end(choice[0]) < token.expires_at]
    around = {"token": token, "families": FAMILIES, "held": token.scopes, "lives": left}
    return render("user/tokens/edit.html", "form", status=form.status, form=form, **around)


@bp.post("/<token_id>/revoke")
@page_can(permissions.PERSONAL)
def revoke(token_id):
    token = tokens.get(token_id, viewer())
    tokens.revoke(token)
    if "leave" not in request.form:
        return did(f"The token {token.name} is revoked.", url_for(".index"))
    say(f"The token {token.name} is revoked.")
    return go(url_for(".index"))


@bp.get("/test")
@page_can(permissions.ANY_USER)
def test():
    return test_page(Form(TrialForm, known={"request": "GET /api/instances", "address": str(source_address())}))


@bp.post("/test")
@page_can(permissions.ANY_USER)
def run_test():
    form = Form(TrialForm)
    form.submit(lambda token, request, address: permission_check.of(token, request, address, viewer()))
    return test_page(form)


def test_page(form):
    around = {"trial": form.result, "operations": permission_check.operations()}
    return render("user/tokens/permission_check.html", "form", status=form.status, form=form, **around)
