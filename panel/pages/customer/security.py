"""My own security: password, second factor, recovery codes, passkeys, and where I am signed in.

None of it needs a permission of a role: everybody must be able to set up the factor that is asked for.
"""

from flask import Blueprint, jsonify, request, url_for
from flask_login import current_user
from marshmallow import ValidationError, fields, validate, validates_schema

from panel.auth import login, permissions
from panel.auth.browser_session import lacks_factor, me, page_can, refusal
from panel.core.db import session
from panel.pages.customer.sign_in import Credential
from panel.ratelimit import sign_in
from panel.schemas.accounts import AccountPassword
from panel.schemas.base import In, Name, Text
from panel.schemas.constants import PASSWORD_MAX_LENGTH
from panel.services import factors, known_devices, passkeys, passwords, sessions
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say

bp = Blueprint("security", __name__, url_prefix="/profile")
Password = fields.String(required=True, validate=validate.Length(1, PASSWORD_MAX_LENGTH))


class PasswordForm(In):
    current = Password
    new = AccountPassword(required=True)
    again = fields.String(required=True)

    @validates_schema
    def same(self, data, **_):
        if data["new"] != data["again"]:
            raise ValidationError("The two are not the same.", "again")


class ConfirmForm(In):
    password = Password


class CodeForm(In):
    code = Text(required=True, least=1, most=16)


class PasskeyForm(In):
    name = Name(required=True, most=64)
    password = Password


class NewPasskey(In):
    name = Name(required=True, most=64)
    credential = Credential


@bp.get("/security")
@page_can(permissions.ANY_USER)
def show():
    return page("live")


def page(block=None, password=None):
    form = password or Form(PasswordForm)
    running = [(each, known_devices.called(each.user_agent)) for each in session.scalars(sessions.listing(me()))]
    return render(
        "user/security/show.html",
        block,
        status=form.status,
        password=form,
        running=running,
        here=current_user.sign_in,
        keys=session.scalars(passkeys.listing(me())).all(),
        codes_left=factors.codes_left(me()),
        has_factor=factors.any_of(me()),
        lacks_factor=lacks_factor(),
        why=refusal(permissions.PERSONAL),
    )


@bp.post("/password")
@page_can(permissions.PERSONAL)
def change_password():
    """Other browsers are signed out: whoever knew the old password may be in one of them."""
    form = Form(PasswordForm)
    if form.submit(replace_password):
        say("The password is changed, and your other sessions are ended.")
        return go(url_for(".show"))
    return page("password_form", form)


def replace_password(current, new, again):
    confirm(current, "current")
    passwords.change(me(), new, login.source(), kept=current_user.sign_in, field="new")


def confirm(password, field="password"):
    """Raises unless it is the person's password, which somebody at a forgotten screen does not know."""
    sign_in.own_password(current_user.sign_in.id)
    passwords.check(me(), password, field)


@bp.route("/two-factor/begin", methods=["GET", "POST"])
@page_can(permissions.PERSONAL)
def begin_two_factor():
    return with_password(
        lambda: factors.begin(me()),
        lambda _: go(url_for(".two_factor")),
        title="Set up an authenticator",
        text="From then on your password needs a code of it as well.",
        button="Go on",
    )


@bp.get("/two-factor")
@page_can(permissions.PERSONAL)
def two_factor():
    return set_up(Form(CodeForm)) if me().totp_secret and not me().two_factor_at else go(url_for(".show"))


def set_up(form):
    picture, secret = factors.qr(me()), me().totp_secret
    return render(
        "user/security/two_factor.html", "form", status=form.status, form=form, picture=picture, secret=secret
    )


@bp.post("/two-factor/confirm")
@page_can(permissions.PERSONAL)
def confirm_two_factor():
    form = Form(CodeForm)
    if form.submit(lambda code: factors.confirm(me(), code, login.source())):
        return show_codes(form.result, "Two-factor authentication is on.")
    return set_up(form) if me().totp_secret else go(url_for(".show"))


@bp.route("/two-factor/disable", methods=["GET", "POST"])
@page_can(permissions.PERSONAL)
def disable_two_factor():
    return with_password(
        lambda: factors.disable(me(), login.source()),
        lambda _: done("Two-factor authentication is off."),
        title="Turn two-factor authentication off",
        text="The codes of your authenticator count no more. You can set it up again at any time.",
        button="Turn off",
        danger=True,
    )


@bp.route("/recovery-codes/new", methods=["GET", "POST"])
@page_can(permissions.PERSONAL)
def renew_codes():
    return with_password(
        lambda: factors.renew_codes(me(), login.source()),
        show_codes,
        title="New recovery codes",
        text="You get ten new codes. The ones that you have count no more.",
        button="Make new codes",
    )


def with_password(action, then, **words):
    """A page that asks for the password and does something when it is right."""
    form = Form(ConfirmForm)
    if request.method == "POST" and form.submit(lambda password: (confirm(password), action())[1]):
        return then(form.result)
    return render("user/security/confirm.html", "form", status=form.status, form=form, **words)


def done(sentence):
    say(sentence)
    return go(url_for(".show"))


def show_codes(codes, otherwise=""):
    """The new recovery codes, which the next page shows once; where there are none, what was done is said."""
    if not codes:
        return done(otherwise)
    flash_secrets.keep(me().id, " ".join(codes))
    return go(url_for(".recovery_codes"))


@bp.get("/recovery-codes")
@page_can(permissions.PERSONAL)
def recovery_codes():
    codes = flash_secrets.take(me().id)
    return render("user/security/codes.html", codes=codes.split()) if codes else go(url_for(".show"))


@bp.get("/passkeys/new")
@page_can(permissions.PERSONAL)
def new_passkey():
    return render("user/security/new_passkey.html", form=Form(PasskeyForm), site=login.site())


@bp.post("/passkeys/options")
@page_can(permissions.PERSONAL)
def passkey_options():
    """What the browser needs to make a passkey, as JSON; or in a sentence why it gets none."""
    form = Form(PasskeyForm)
    if not form.submit(lambda name, password: confirm(password)):
        return jsonify({"problem": " ".join(form.errors.values())})
    options, challenge = passkeys.ask_new(me(), login.site())
    login.remember("new", challenge)
    return jsonify(options)


@bp.post("/passkeys")
@page_can(permissions.PERSONAL)
def add_passkey():
    sent = Form(NewPasskey)
    if sent.submit(register):
        return show_codes(sent.result, "The passkey is added.")
    say(sent.errors.get("") or "The passkey could not be kept. Try again.", "danger")
    return go(url_for(".new_passkey"))


def register(name, credential):
    """Only a browser that has confirmed the password was given a challenge."""
    facts = {"challenge": login.challenge("new"), "site": login.site(), "source": login.source()}
    return passkeys.register(me(), name=name, credential=credential, **facts)


@bp.route("/passkeys/<passkey_id>/remove", methods=["GET", "POST"])
@page_can(permissions.PERSONAL)
def remove_passkey(passkey_id):
    passkey = passkeys.get(me(), passkey_id)
    return with_password(
        lambda: passkeys.remove(passkey, login.source()),
        lambda _: done("The passkey is removed."),
        title=f"Remove the passkey {passkey.name}",
        text="It opens your account no more. Delete it on the device as well, where it is still offered.",
        button="Remove",
        danger=True,
    )


@bp.post("/sessions/<sign_in_id>/end")
@page_can(permissions.PERSONAL)
def end(sign_in_id):
    sessions.end_one(me(), sign_in_id)
    return did("The session is ended.", url_for(".show"))


@bp.post("/sessions/end-others")
@page_can(permissions.PERSONAL)
def end_others():
    sessions.end_others(me(), current_user.sign_in)
    return did("Every other session is ended.", url_for(".show"))
