"""Signing in and out."""

from urllib.parse import urlsplit

from flask import Blueprint, request, url_for
from marshmallow import fields, validate

from panel.auth import permissions
from panel.auth.browser import enter, leave, page_can, viewer
from panel.errors import Invalid
from panel.forms import Form
from panel.htmx import go, render, say
from panel.schemas.base import In, Text
from panel.services import accounts

bp = Blueprint("sign_in", __name__)


class SignInForm(In):
    email = Text(required=True, least=1)
    password = fields.String(required=True, validate=validate.Length(1, 1024))


@bp.get("/sign-in")
@page_can(permissions.PUBLIC)
def show():
    if viewer():
        return go(onward())
    return render("user/sign_in/show.html", form=Form(SignInForm), onward=request.args.get("next", ""))


@bp.post("/sign-in")
@page_can(permissions.PUBLIC)
def start():
    """The refusal takes as long and says the same, whether the address or the password was wrong."""
    form = Form(SignInForm)
    if form.submit(check):
        enter(form.result)
        return go(onward())
    onward_kept = request.args.get("next", "")
    return render("user/sign_in/show.html", "form", status=form.status, form=form, onward=onward_kept)


def check(email, password):
    account = accounts.check_password(email, password)
    if account is None:
        raise Invalid("The email address or the password is wrong.")
    return account


@bp.post("/sign-out", endpoint="leave")
@page_can(permissions.ANY_USER)
def end():
    leave()
    say("You are signed out.")
    return go(url_for("sign_in.show"))


def onward():
    """Where the person was going, if that is a page of this panel."""
    wanted = request.args.get("next", "")
    parts = urlsplit(wanted)
    ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    return wanted if ours and wanted.isprintable() else url_for("overview.show")
