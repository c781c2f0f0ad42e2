"""The page of an invitation link: joining a team with a new or an existing account."""

from flask import Blueprint, url_for
from marshmallow import ValidationError, fields, validate, validates_schema

from panel.auth import login, permissions
from panel.auth.browser_session import get_current_account, log_out, require_page_permission
from panel.schemas.accounts import AccountPassword
from panel.schemas.base import In, Name
from panel.schemas.constants import PASSWORD_MAX_LENGTH
from panel.schemas.instances import validate_time_zone
from panel.services import accounts, invitations
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("invitations", __name__, url_prefix="/invitation")


class AcceptForm(In):
    first_name = Name(required=True, maximum=100)
    last_name = Name(minimum=0, maximum=100, load_default="")
    password = AccountPassword(required=True)
    again = fields.String(required=True, validate=validate.Length(1, PASSWORD_MAX_LENGTH))
    timezone = fields.String(validate=validate_time_zone)

    @validates_schema(skip_on_field_errors=True)
    def validate_passwords_match(self, data, **kwargs):
        if data.pop("again") != data["password"]:
            raise ValidationError(_("The passwords do not match."), "again")


@bp.get("/<secret>")
@require_page_permission(permissions.PUBLIC)
def show(secret):
    return invitation_page(secret, Form(AcceptForm))


@bp.post("/<secret>")
@require_page_permission(permissions.PUBLIC)
def accept(secret):
    form = Form(AcceptForm)
    if form.submit(lambda **data: invitations.accept(secret, **data)):
        if get_current_account():
            log_out()
        login.complete_login(form.result)
        return redirect_to_team()
    return invitation_page(secret, form)


@bp.post("/<secret>/join")
@require_page_permission(permissions.ANY_USER)
def join(secret):
    invitations.join(secret, get_current_account())
    return redirect_to_team()


def redirect_to_team():
    flash_message(_("You joined the team."))
    return redirect_to(url_for("overview.show"))


def invitation_page(secret, form):
    """Render a form for a new account, or how to join with the existing account of the address."""
    member = invitations.get_open(secret)
    account = accounts.find_by_email(member.email)
    reason = get_current_account() and account and invitations.join_error(member, get_current_account())
    context = {
        "member": member,
        "secret": secret,
        "account": account,
        "current_account": get_current_account(),
        "join_error": reason,
    }
    return render("customer/invitations/show.html", "form", status=form.status, form=form, **context)
