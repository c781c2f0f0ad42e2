"""Signing in and out: by password and, where there is one, a second factor; or by a passkey alone."""

from flask import Blueprint, jsonify, request, url_for
from marshmallow import fields, validate

from panel.auth import audit_context, login, permissions
from panel.auth.browser_session import home, leave, me, page_can
from panel.core.errors import Invalid, TooMany
from panel.ratelimit import sign_in
from panel.schemas.base import In, Text
from panel.services import accounts, factors, passkeys, security_notifications
from panel.web.forms import Form
from panel.web.htmx import failed, go, ours, render, say

bp = Blueprint("sign_in", __name__)
Credential = fields.String(required=True, validate=validate.Length(1, 20_000))
"""What a browser says for a passkey: JSON."""


class SignInForm(In):
    email = Text(required=True, least=1)
    password = fields.String(required=True, validate=validate.Length(1, 1024))


class CodeForm(In):
    code = Text(required=True, least=1, most=64)


class PasskeyForm(In):
    credential = Credential


@bp.get("/sign-in")
@page_can(permissions.PUBLIC)
def show():
    return go(onward()) if me() else page(Form(SignInForm))


@bp.post("/sign-in")
@page_can(permissions.PUBLIC)
def start():
    """The refusal takes as long and says the same, whether the address or the password was wrong."""
    form = Form(SignInForm)
    if form.submit(check):
        return go(onward()) if login.admit(form.result) else go(url_for(".second_step", next=kept()))
    return page(form)


def check(email, password):
    sign_in.password(login.source(), email, login.known_device(email))
    account = accounts.check_password(email, password)
    if account is None:
        audit_context.refused(email)
        raise Invalid("The email address or the password is wrong.")
    return account


def page(form):
    return answer("user/sign_in/show.html", form, site=login.site())


def answer(template, form, **around):
    return render(template, "form", status=form.status, form=form, onward=kept(), **around)


@bp.get("/sign-in/second-step")
@page_can(permissions.PUBLIC)
def second_step():
    return second_page(Form(CodeForm)) if login.half_admitted() else begin_again()


@bp.post("/sign-in/second-step")
@page_can(permissions.PUBLIC)
def finish():
    account = login.half_admitted()
    if account is None:
        return begin_again()
    form = Form(CodeForm)
    if form.submit(lambda code: prove(account, code)):
        login.let_in(account)
        return go(onward())
    return second_page(form)


def prove(account, code):
    usual = factors.from_authenticator(code)
    if usual:
        sign_in.code(account, login.known_device(account.email))
    else:
        sign_in.recovery_code(login.source())
    if not factors.prove(account, code):
        audit_context.refused(account.email)
        raise Invalid("The code is wrong.", code=factors.WRONG_CODE)
    if not usual:
        left = factors.codes_left(account)
        security_notifications.changed(account, f"A recovery code was used, {left} are left", login.source())


def second_page(form):
    account = login.half_admitted()
    return answer(
        "user/sign_in/second_step.html",
        form,
        account=account,
        with_passkey=factors.has_passkey(account),
        site=login.site(),
    )


def begin_again():
    say("Sign in again: the second step took too long, or the password has changed.", "warning")
    return go(url_for(".show", next=kept()))


@bp.post("/sign-in/passkey/options")
@page_can(permissions.PUBLIC)
def passkey_options():
    """What the browser needs to ask for a passkey, as JSON: of the person between the steps, or any."""
    account = login.half_admitted() if "second" in request.args else None
    options, challenge = passkeys.ask(login.site(), account)
    login.remember("second step" if account else "sign in", challenge)
    return jsonify(options)


@bp.post("/sign-in/passkey")
@page_can(permissions.PUBLIC)
def by_passkey():
    form = Form(PasskeyForm)
    if form.submit(lambda credential: owner_of(credential, "sign in")):
        login.let_in(form.result)
        return go(onward())
    return refused(form, ".show")


@bp.post("/sign-in/second-step/passkey")
@page_can(permissions.PUBLIC)
def finish_by_passkey():
    account = login.half_admitted()
    if account is None:
        return begin_again()
    form = Form(PasskeyForm)
    if form.submit(lambda credential: owner_of(credential, "second step", account)):
        login.let_in(account)
        return go(onward())
    return refused(form, ".second_step")


def owner_of(credential, purpose, account=None):
    sign_in.passkey(login.source())
    return passkeys.check(credential, login.challenge(purpose), login.site(), account).account


def refused(form, step):
    """Back to the page that asked for the passkey, with what was wrong."""
    message = form.errors.get("") or passkeys.REFUSED
    if form.status == TooMany.status:
        return failed(form.status, message)
    say(message, "danger")
    return go(url_for(step, next=kept()))


@bp.post("/sign-out", endpoint="leave")
@page_can(permissions.ANY_USER)
def end():
    leave()
    say("You are signed out.")
    return go(url_for("sign_in.show"))


def kept():
    """Where the person was going, to be carried to the next step."""
    return request.args.get("next") or None


def onward():
    """Where the person was going, if that is a page of this panel; else the person's first page."""
    wanted = request.args.get("next", "")
    return wanted if ours(wanted) else home()
