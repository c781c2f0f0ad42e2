"""A password that was lost, or never set: a link comes by mail, and the page behind it sets a new one."""

from flask import Blueprint, url_for
from marshmallow import ValidationError, fields, validates_schema

from panel.auth import entry, permissions
from panel.auth.browser import page_can
from panel.errors import Problem
from panel.forms import Form
from panel.htmx import go, render, say
from panel.schemas.accounts import AccountPassword, Email
from panel.schemas.base import In
from panel.services import passwords, throttle
from panel.user.sign_in import answer

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
    return answer("user/password_reset/ask.html", Form(AskForm))


@bp.post("/forgot-password")
@page_can(permissions.PUBLIC)
def start():
    """The answer says and takes the same for everybody."""
    form = Form(AskForm)
    if form.submit(send):
        return go(url_for(".sent"))
    return answer("user/password_reset/ask.html", form)


def send(email):
    if throttle.mailed_link(entry.source(), email):
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
        return render("user/password_reset/closed.html", status=gone.status, message=gone.message)
    return answer("user/password_reset/choose.html", Form(NewPasswordForm), secret=secret, email=account.email)


@bp.post("/reset-password/<secret>")
@page_can(permissions.PUBLIC)
def finish(secret):
    try:
        email = passwords.opened(secret).email
    except Problem:
        return go(url_for(".choose", secret=secret))
    form = Form(NewPasswordForm)
    if form.submit(lambda new, again: passwords.reset(secret, new, entry.source(), field="new")):
        entry.recognise(form.result)  # the link came by the person's own mail
        say("Your password is set. Sign in with it.")
        return go(url_for("sign_in.show"))
    return answer("user/password_reset/choose.html", form, secret=secret, email=email)
