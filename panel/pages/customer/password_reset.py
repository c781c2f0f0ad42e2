"""A password that was lost, or never set: a link comes by mail, and the page behind it sets a new one."""

from flask import Blueprint, url_for
from marshmallow import ValidationError, fields, validates_schema

from panel.auth import login, permissions
from panel.auth.browser_session import page_can
from panel.core.errors import Problem
from panel.pages.customer.sign_in import answer
from panel.ratelimit import sign_in
from panel.schemas.accounts import AccountPassword, Email
from panel.schemas.base import In
from panel.services import passwords
from panel.web.forms import Form
from panel.web.htmx import go, render, say

bp = Blueprint("password_reset", __name__)


class AskForm(In):
    email = Email(required=True, least=1)


class NewPasswordForm(In):
    new = AccountPassword(required=True)
    again = fields.String(required=True)

    @validates_schema
    def same(self, data, **_):
        if data["new"] != data["again"]:
            raise ValidationError("The two are not the same.", "again")


@bp.get("/forgot-password")
@page_can(permissions.PUBLIC)
def ask():
    return answer("user/password_reset/request.html", Form(AskForm))


@bp.post("/forgot-password")
@page_can(permissions.PUBLIC)
def start():
    """The answer says and takes the same for everybody."""
    form = Form(AskForm)
    if form.submit(send):
        return go(url_for(".sent"))
    return answer("user/password_reset/request.html", form)


def send(email):
    if sign_in.mailed_link(login.source(), email):
        passwords.ask_to_reset(email)


@bp.get("/forgot-password/sent")
@page_can(permissions.PUBLIC)
def sent():
    return render("user/password_reset/sent.html", minutes=int(passwords.LINK_LIVES.total_seconds() // 60))


@bp.get("/reset-password/<secret>")
@page_can(permissions.PUBLIC)
def choose(secret):
    try:
        account = passwords.opened(secret)
    except Problem as gone:
        return render("user/password_reset/link_expired.html", status=gone.status, message=gone.message)
    return answer("user/password_reset/new_password.html", Form(NewPasswordForm), secret=secret, email=account.email)


@bp.post("/reset-password/<secret>")
@page_can(permissions.PUBLIC)
def finish(secret):
    try:
        email = passwords.opened(secret).email
    except Problem:
        return go(url_for(".choose", secret=secret))
    form = Form(NewPasswordForm)
    if form.submit(lambda new, again: passwords.reset(secret, new, login.source(), field="new")):
        login.recognise(form.result)  # the link came by the person's own mail
        say("Your password is set. Sign in with it.")
        return go(url_for("sign_in.show"))
    return answer("user/password_reset/new_password.html", form, secret=secret, email=email)
