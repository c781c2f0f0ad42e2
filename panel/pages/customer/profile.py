"""Who I am: name, company, time zone."""

from flask import Blueprint, url_for
from marshmallow import fields, validate

from panel.auth import permissions
from panel.auth.browser_session import me, page_can
from panel.schemas.base import In, Name
from panel.schemas.instances import ZONES
from panel.services import accounts
from panel.web.forms import Form
from panel.web.htmx import go, render, say

bp = Blueprint("profile", __name__, url_prefix="/profile")


class ProfileForm(In):
    first_name = Name(least=0, most=100, load_default="")
    last_name = Name(least=0, most=100, load_default="")
    company_name = Name(least=0, allow_none=True)
    timezone = fields.String(
        required=True, validate=validate.OneOf(ZONES, error="Choose a time zone like Europe/Berlin.")
    )


def page(form):
    zones = [(name, name.replace("_", " ")) for name in sorted(ZONES)]
    return render("user/profile/show.html", "form", status=form.status, form=form, zones=zones)


@bp.get("")
@page_can(permissions.ANY_USER)
def show():
    return page(Form(ProfileForm, known=me()))


@bp.post("")
@page_can(permissions.ANY_USER)
def update():
    form = Form(ProfileForm, known=me())
    if form.submit(lambda **data: accounts.update(me(), **data)):
        say("Your profile is changed.")
        return go(url_for(".show"))
    return page(form)
