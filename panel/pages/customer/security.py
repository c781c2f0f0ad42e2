"""The person's own security: password, second factor, recovery codes, passkeys, browser sessions.

No page needs a permission of a role, because everybody must be able to set up a required second factor.
"""

from flask import Blueprint, jsonify, request, url_for
from flask_login import current_user
from marshmallow import ValidationError, fields, validate, validates_schema

from panel.auth import login, permissions
from panel.auth.browser_session import (
    get_current_account,
    is_second_factor_missing,
    permission_error,
    require_page_permission,
)
from panel.core.db import session
from panel.pages.customer.sign_in import Credential
from panel.ratelimit import sign_in
from panel.schemas.accounts import AccountPassword
from panel.schemas.base import In, Name, Text
from panel.schemas.constants import PASSWORD_MAX_LENGTH
from panel.services import factors, known_devices, passkeys, passwords, sessions
from panel.web import flash_secrets
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("security", __name__, url_prefix="/profile")
Password = fields.String(required=True, validate=validate.Length(1, PASSWORD_MAX_LENGTH))


class PasswordForm(In):
    current = Password
    new = AccountPassword(required=True)
    again = fields.String(required=True)

    @validates_schema
    def validate_passwords_match(self, data, **kwargs):
        if data["new"] != data["again"]:
            raise ValidationError(_("The passwords do not match."), "again")


class ConfirmForm(In):
    password = Password


class CodeForm(In):
    code = Text(required=True, minimum=1, maximum=16)


class PasskeyForm(In):
    name = Name(required=True, maximum=64)
    password = Password


class NewPasskey(In):
    name = Name(required=True, maximum=64)
    credential = Credential


@bp.get("/security")
@require_page_permission(permissions.ANY_USER)
def show():
    return security_page("live")


def security_page(block=None, password=None):
    form = password or Form(PasswordForm)
    running = [
        (row, known_devices.describe_user_agent(row.user_agent))
        for row in session.scalars(sessions.listing(get_current_account()))
    ]
    return render(
        "customer/security/show.html",
        block,
        status=form.status,
        password=form,
        running=running,
        current_session=current_user.sign_in,
        site=login.get_passkey_site(),
        keys=session.scalars(passkeys.listing(get_current_account())).all(),
        codes_left=factors.count_codes(get_current_account()),
        has_factor=factors.has_second_factor(get_current_account()),
        lacks_factor=is_second_factor_missing(),
        disabled_reason=permission_error(permissions.PERSONAL),
    )


@bp.post("/password")
@require_page_permission(permissions.PERSONAL)
def change_password():
    """Change the password and end other sessions, which somebody may have opened with the old one."""
    form = Form(PasswordForm)
    if form.submit(replace_password):
        flash_message(_("Password changed. All other sessions are signed out."))
        return redirect_to(url_for(".show"))
    return security_page("password_form", form)


def replace_password(current, new, again):
    ensure_password(current, "current")
    passwords.change(
        get_current_account(), new, login.get_request_source(), keep=current_user.sign_in, error_field="new"
    )


def ensure_password(password, error_field="password"):
    """Raise Invalid unless it is the person's password. Protects against misuse of an unattended browser."""
    sign_in.consume_reauthentication(current_user.sign_in.id)
    passwords.ensure_correct(get_current_account(), password, error_field)


@bp.route("/two-factor/begin", methods=["GET", "POST"])
@require_page_permission(permissions.PERSONAL)
def begin_two_factor():
    return confirm_with_password(
        lambda: factors.start_setup(get_current_account()),
        lambda factor: redirect_to(url_for(".two_factor")),
        title=_("Set up an authenticator app"),
        text=_("You will need a code from the app in addition to your password."),
        button=_("Continue"),
    )


@bp.get("/two-factor")
@require_page_permission(permissions.PERSONAL)
def two_factor():
    return (
        two_factor_page(Form(CodeForm))
        if get_current_account().totp_secret and not get_current_account().two_factor_at
        else redirect_to(url_for(".show"))
    )


def two_factor_page(form):
    picture, secret = factors.make_qr_code(get_current_account()), get_current_account().totp_secret
    return render(
        "customer/security/two_factor.html", "form", status=form.status, form=form, picture=picture, secret=secret
    )


@bp.post("/two-factor/confirm")
@require_page_permission(permissions.PERSONAL)
def confirm_two_factor():
    form = Form(CodeForm)
    if form.submit(lambda code: factors.confirm(get_current_account(), code, login.get_request_source())):
        return show_codes(form.result, _("Two-factor authentication is on."))
    return two_factor_page(form) if get_current_account().totp_secret else redirect_to(url_for(".show"))


@bp.route("/two-factor/disable", methods=["GET", "POST"])
@require_page_permission(permissions.PERSONAL)
def disable_two_factor():
    return confirm_with_password(
        lambda: factors.disable(get_current_account(), login.get_request_source()),
        lambda result: redirect_with_message(_("Two-factor authentication is off.")),
        title=_("Turn off two-factor authentication"),
        text=_("The codes of your authenticator app stop working. You can set it up again at any time."),
        button=_("Turn off"),
        danger=True,
    )


@bp.route("/recovery-codes/new", methods=["GET", "POST"])
@require_page_permission(permissions.PERSONAL)
def renew_codes():
    return confirm_with_password(
        lambda: factors.renew_codes(get_current_account(), login.get_request_source()),
        show_codes,
        title=_("New recovery codes"),
        text=_("You get ten new codes. Your current codes stop working."),
        button=_("Generate new codes"),
    )


def confirm_with_password(action, then, **texts):
    """Render a form that asks for the password. When it is correct, return `then(action())`."""
    form = Form(ConfirmForm)
    if request.method == "POST" and form.submit(lambda password: (ensure_password(password), action())[1]):
        return then(form.result)
    return render("customer/security/confirm.html", "form", status=form.status, form=form, **texts)


def redirect_with_message(sentence):
    flash_message(sentence)
    return redirect_to(url_for(".show"))


def show_codes(codes, fallback_message=""):
    """Redirect to a page that shows the new recovery codes once, or show the message when there are none."""
    if not codes:
        return redirect_with_message(fallback_message)
    flash_secrets.store(get_current_account().id, " ".join(codes))
    return redirect_to(url_for(".recovery_codes"))


@bp.get("/recovery-codes")
@require_page_permission(permissions.PERSONAL)
def recovery_codes():
    codes = flash_secrets.pop(get_current_account().id)
    return render("customer/security/codes.html", codes=codes.split()) if codes else redirect_to(url_for(".show"))


@bp.get("/passkeys/new")
@require_page_permission(permissions.PERSONAL)
def new_passkey():
    return render("customer/security/new_passkey.html", form=Form(PasskeyForm), site=login.get_passkey_site())


@bp.post("/passkeys/options")
@require_page_permission(permissions.PERSONAL)
def passkey_options():
    """Return the options for creating a passkey as JSON, or `problem` with the reason."""
    form = Form(PasskeyForm)
    if not form.submit(lambda name, password: ensure_password(password)):
        return jsonify({"problem": " ".join(form.errors.values())})
    options, challenge = passkeys.create_registration(get_current_account(), login.get_passkey_site())
    login.store_challenge("new", challenge)
    return jsonify(options)


@bp.post("/passkeys")
@require_page_permission(permissions.PERSONAL)
def add_passkey():
    form = Form(NewPasskey)
    if form.submit(register_passkey):
        return show_codes(form.result, _("Passkey added."))
    flash_message(form.errors.get("") or _("The passkey could not be saved. Try again."), "danger")
    return redirect_to(url_for(".new_passkey"))


def register_passkey(name, credential):
    """Store the passkey. The challenge exists only after the password was confirmed."""
    ceremony = {
        "challenge": login.pop_challenge("new"),
        "site": login.get_passkey_site(),
        "source": login.get_request_source(),
    }
    return passkeys.register(get_current_account(), name=name, credential=credential, **ceremony)


@bp.route("/passkeys/<passkey_id>/remove", methods=["GET", "POST"])
@require_page_permission(permissions.PERSONAL)
def remove_passkey(passkey_id):
    passkey = passkeys.get(get_current_account(), passkey_id)
    return confirm_with_password(
        lambda: passkeys.remove(passkey, login.get_request_source()),
        lambda result: redirect_with_message(_("Passkey deleted.")),
        title=_("Delete passkey %(name)s", name=passkey.name),
        text=_("You can no longer sign in with it. Delete it on your device as well."),
        button=_("Remove"),
        danger=True,
    )


@bp.post("/sessions/<sign_in_id>/end")
@require_page_permission(permissions.PERSONAL)
@audit_label("Revoke session")
def end(sign_in_id):
    sessions.revoke_one(get_current_account(), sign_in_id)
    return build_action_response(_("Session revoked."), url_for(".show"))


@bp.post("/sessions/end-others")
@require_page_permission(permissions.PERSONAL)
@audit_label("Sign out all other sessions")
def end_others():
    sessions.revoke_others(get_current_account(), current_user.sign_in)
    return build_action_response(_("All other sessions are signed out."), url_for(".show"))
