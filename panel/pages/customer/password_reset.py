"""Resetting a lost or never set password: a mailed link, and the page that sets the new one."""

from flask import Blueprint, url_for
from marshmallow import ValidationError, fields, validates_schema

from panel.auth import login, permissions
from panel.auth.browser_session import require_page_permission
from panel.core.errors import Problem
from panel.pages.customer.sign_in import render_form
from panel.ratelimit import sign_in
from panel.schemas.accounts import AccountPassword, Email
from panel.schemas.base import In
from panel.services import passwords
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("password_reset", __name__)


class AskForm(In):
    email = Email(required=True, minimum=1)


class NewPasswordForm(In):
    new = AccountPassword(required=True)
    again = fields.String(required=True)

    @validates_schema
    def validate_passwords_match(self, data, **kwargs):
        if data["new"] != data["again"]:
            raise ValidationError(_("The passwords do not match."), "again")


@bp.get("/forgot-password")
@require_page_permission(permissions.PUBLIC)
def show_request_form():
    return render_form("customer/password_reset/request.html", Form(AskForm))


@bp.post("/forgot-password")
@require_page_permission(permissions.PUBLIC)
@audit_label("Request password reset")
def start():
    """Request a reset mail. Text and duration of the response do not reveal whether the account exists."""
    form = Form(AskForm)
    if form.submit(send_reset_mail):
        return redirect_to(url_for(".show_sent"))
    return render_form("customer/password_reset/request.html", form)


def send_reset_mail(email):
    if sign_in.consume_password_reset_mail(login.get_request_source(), email):
        passwords.request_reset(email)


@bp.get("/forgot-password/sent")
@require_page_permission(permissions.PUBLIC)
def show_sent():
    return render("customer/password_reset/sent.html", minutes=int(passwords.RESET_LINK_TTL.total_seconds() // 60))


@bp.get("/reset-password/<secret>")
@require_page_permission(permissions.PUBLIC)
def choose(secret):
    try:
        account = passwords.get_account(secret)
    except Problem as gone:
        return render("customer/password_reset/link_expired.html", status=gone.status, message=gone.message)
    return render_form(
        "customer/password_reset/new_password.html", Form(NewPasswordForm), secret=secret, email=account.email
    )


@bp.post("/reset-password/<secret>")
@require_page_permission(permissions.PUBLIC)
@audit_label("Reset password")
def finish(secret):
    try:
        email = passwords.get_account(secret).email
    except Problem:
        return redirect_to(url_for(".choose", secret=secret))
    form = Form(NewPasswordForm)
    if form.submit(lambda new, again: passwords.reset(secret, new, login.get_request_source(), error_field="new")):
        login.remember_device(form.result)  # the link came by the person's own mail
        flash_message(_("Password set. Sign in with it."))
        return redirect_to(url_for("sign_in.show"))
    return render_form("customer/password_reset/new_password.html", form, secret=secret, email=email)
