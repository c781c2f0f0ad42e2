"""Signing in and out: by password and second factor, or by passkey alone."""

from flask import Blueprint, jsonify, request, url_for
from marshmallow import fields, validate

from panel.auth import audit_context, login, permissions
from panel.auth.browser_session import get_current_account, get_home_url, log_out, require_page_permission
from panel.core.errors import Invalid, TooMany
from panel.ratelimit import sign_in
from panel.schemas.base import In, Text
from panel.services import accounts, factors, passkeys, security_notifications
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_error_response, flash_message, is_local_url, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("sign_in", __name__)
Credential = fields.String(required=True, validate=validate.Length(1, 20_000))
"""The browser's passkey response, as JSON in a form field."""


class SignInForm(In):
    email = Text(required=True, minimum=1)
    password = fields.String(required=True, validate=validate.Length(1, 1024))


class CodeForm(In):
    code = Text(required=True, minimum=1, maximum=64)


class PasskeyForm(In):
    credential = Credential


@bp.get("/sign-in")
@require_page_permission(permissions.PUBLIC)
def show():
    return redirect_to(get_next_url()) if get_current_account() else sign_in_page(Form(SignInForm))


@bp.post("/sign-in")
@require_page_permission(permissions.PUBLIC)
@audit_label("Sign in")
def start():
    """Sign in by password. Text and duration of a refusal do not reveal whether the address exists."""
    form = Form(SignInForm)
    if form.submit(check_credentials):
        return (
            redirect_to(get_next_url())
            if login.start_login(form.result)
            else redirect_to(url_for(".second_step", next=parse_requested_next()))
        )
    return sign_in_page(form)


def check_credentials(email, password):
    sign_in.consume_password_attempt(login.get_request_source(), email, login.find_known_device(email))
    account = accounts.authenticate(email, password)
    if account is None:
        audit_context.log_failed_sign_in(email)
        raise Invalid(_("The email address or the password is wrong."))
    return account


def sign_in_page(form):
    return render_form("customer/sign_in/show.html", form, site=login.get_passkey_site())


def render_form(template, form, **context):
    return render(template, "form", status=form.status, form=form, next_url=parse_requested_next(), **context)


@bp.get("/sign-in/second-step")
@require_page_permission(permissions.PUBLIC)
def second_step():
    return second_step_page(Form(CodeForm)) if login.find_pending_second_factor() else restart_sign_in()


@bp.post("/sign-in/second-step")
@require_page_permission(permissions.PUBLIC)
@audit_label("Sign in, two-factor code")
def finish():
    account = login.find_pending_second_factor()
    if account is None:
        return restart_sign_in()
    form = Form(CodeForm)
    if form.submit(lambda code: check_second_factor(account, code)):
        login.complete_login(account)
        return redirect_to(get_next_url())
    return second_step_page(form)


def check_second_factor(account, code):
    usual = factors.is_totp_code(code)
    if usual:
        sign_in.consume_code_attempt(account, login.find_known_device(account.email))
    else:
        sign_in.consume_recovery_code_attempt(login.get_request_source())
    if not factors.verify_code(account, code):
        audit_context.log_failed_sign_in(account.email)
        raise Invalid(_("The code is wrong."), code=factors.WRONG_CODE_MESSAGE)
    if not usual:
        remaining = factors.count_codes(account)
        security_notifications.send_setting_change(
            account,
            _("A recovery code was used, %(remaining)s are left", remaining=remaining),
            login.get_request_source(),
        )


def second_step_page(form):
    account = login.find_pending_second_factor()
    return render_form(
        "customer/sign_in/second_step.html",
        form,
        account=account,
        with_passkey=passkeys.has_passkey(account, login.get_passkey_site()),
        site=login.get_passkey_site(),
    )


def restart_sign_in():
    flash_message(_("Sign in again. Your sign-in expired, or the password has changed."), "warning")
    return redirect_to(url_for(".show", next=parse_requested_next()))


@bp.post("/sign-in/passkey/options")
@require_page_permission(permissions.PUBLIC)
def passkey_options():
    """Return the options for a passkey login as JSON: limited to one account in the second step, else any."""
    account = login.find_pending_second_factor() if "second" in request.args else None
    options, challenge = passkeys.create_authentication(login.get_passkey_site(), account)
    login.store_challenge("second step" if account else "sign in", challenge)
    return jsonify(options)


@bp.post("/sign-in/passkey")
@require_page_permission(permissions.PUBLIC)
@audit_label("Sign in with a passkey")
def by_passkey():
    form = Form(PasskeyForm)
    if form.submit(lambda credential: verify_passkey(credential, "sign in")):
        login.complete_login(form.result)
        return redirect_to(get_next_url())
    return refuse_passkey(form, ".show")


@bp.post("/sign-in/second-step/passkey")
@require_page_permission(permissions.PUBLIC)
@audit_label("Sign in, passkey as second factor")
def finish_by_passkey():
    account = login.find_pending_second_factor()
    if account is None:
        return restart_sign_in()
    form = Form(PasskeyForm)
    if form.submit(lambda credential: verify_passkey(credential, "second step", account)):
        login.complete_login(account)
        return redirect_to(get_next_url())
    return refuse_passkey(form, ".second_step")


def verify_passkey(credential, purpose, account=None):
    sign_in.consume_passkey_attempt(login.get_request_source())
    return passkeys.verify(credential, login.pop_challenge(purpose), login.get_passkey_site(), account).account


def refuse_passkey(form, step):
    """Redirect to the page of the step with an error message."""
    message = form.errors.get("") or passkeys.PASSKEY_REFUSED_MESSAGE
    if form.status == TooMany.status:
        return build_error_response(form.status, message)
    flash_message(message, "danger")
    return redirect_to(url_for(step, next=parse_requested_next()))


@bp.post("/sign-out", endpoint="leave")
@require_page_permission(permissions.ANY_USER)
@audit_label("Sign out")
def end():
    log_out()
    flash_message(_("You are signed out."))
    return redirect_to(url_for("sign_in.show"))


def parse_requested_next():
    """Return the `next` parameter of the request, to pass it to the next step."""
    return request.args.get("next") or None


def get_next_url():
    """Return the `next` parameter when it is a local URL, else the person's first page, also for the panel's address
    alone, where operators have another first page than customers."""
    target = request.args.get("next", "")
    return target if is_local_url(target) and target != url_for("overview.show") else get_home_url()
