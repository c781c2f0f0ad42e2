"""The page behind the link of an invitation: a person joins a team, with a new account or the one they have."""

from flask import Blueprint, url_for
from marshmallow import ValidationError, fields, validate, validates_schema

from panel.auth import login, permissions
from panel.auth.browser_session import leave, me, page_can
from panel.schemas.accounts import AccountPassword
from panel.schemas.base import In, Name
from panel.schemas.constants import PASSWORD_MAX_LENGTH
from panel.schemas.instances import known_zone
from panel.services import accounts, invitations
from panel.web.forms import Form
from panel.web.htmx import go, render, say

bp = Blueprint("invitations", __name__, url_prefix="/invitation")


class AcceptForm(In):
    first_name = Name(required=True, most=100)
    last_name = Name(least=0, most=100, load_default="")
    password = AccountPassword(required=True)
    again = fields.String(required=True, validate=validate.Length(1, PASSWORD_MAX_LENGTH))
    timezone = fields.String(validate=known_zone)

    @validates_schema(skip_on_field_errors=True)
    def same(self, data, **_):
        if data.pop("again") != data["password"]:
            raise ValidationError("The two are not the same.", "again")


@bp.get("/<secret>")
@page_can(permissions.PUBLIC)
def show(secret):
    return page(secret, Form(AcceptForm))


@bp.post("/<secret>")
@page_can(permissions.PUBLIC)
def accept(secret):
    form = Form(AcceptForm)
    if form.submit(lambda **data: invitations.accept(secret, **data)):
        if me():
            leave()
        login.let_in(form.result)
        return welcome()
    return page(secret, form)


@bp.post("/<secret>/join")
@page_can(permissions.ANY_USER)
def join(secret):
    invitations.join(secret, me())
    return welcome()


def welcome():
    say("You are in the team.")
    return go(url_for("overview.show"))


def page(secret, form):
    """A form for a new account; or, where the address has one, what to do with it."""
    member = invitations.opened(secret)
    account = accounts.by_email(member.email)
    why = me() and account and invitations.hindrance(member, me())
    facts = {"member": member, "secret": secret, "account": account, "person": me(), "why": why}
    return render("user/invitations/show.html", "form", status=form.status, form=form, **facts)
