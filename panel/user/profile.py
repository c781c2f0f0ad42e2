"""Who I am: name, time zone, password, and where I am signed in."""

from flask import Blueprint, url_for
from flask_login import current_user
from marshmallow import ValidationError, fields, validate, validates_schema

from panel.auth import permissions
from panel.auth.browser import page_can, viewer
from panel.db import session
from panel.errors import Invalid
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.schemas.base import In, Text
from panel.schemas.instances import ZONES
from panel.services import accounts, sign_ins

bp = Blueprint("profile", __name__, url_prefix="/profile")

BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)
"""Marks in what browsers call themselves; the first that is there counts."""


class ProfileForm(In):
    first_name = Text(most=100, load_default="")
    last_name = Text(most=100, load_default="")
    company_name = Text(allow_none=True)
    timezone = fields.String(
        required=True, validate=validate.OneOf(ZONES, error="Choose a time zone like Europe/Berlin.")
    )


class PasswordForm(In):
    current = fields.String(required=True, validate=validate.Length(1, 1024))
    new = Text(required=True, least=12, most=1024)
    again = fields.String(required=True)

    @validates_schema
    def same(self, data, **_):
        if data["new"] != data["again"]:
            raise ValidationError("The two are not the same.", "again")


def page(block=None, **forms):
    """The page with both forms, of which one may hold what was sent."""
    shown = {"form": Form(ProfileForm, known=viewer()), "password": Form(PasswordForm), **forms}
    status = max(form.status for form in shown.values())
    running = [(each, browser(each.user_agent)) for each in session.scalars(sign_ins.listing(viewer()))]
    zones = [(name, name.replace("_", " ")) for name in sorted(ZONES)]
    around = {"zones": zones, "running": running, "here": current_user.sign_in}
    return render("user/profile/show.html", block, status=status, **around, **shown)


def browser(user_agent):
    """What people call it: `Firefox on Linux`."""
    name = next((word for mark, word in BROWSERS if mark in user_agent), "Another program")
    system = next((word for mark, word in SYSTEMS if mark in user_agent), None)
    return f"{name} on {system}" if system else name


@bp.get("")
@page_can(permissions.ANY_USER)
def show():
    return page("sessions")


@bp.post("")
@page_can("account:write")
def update():
    form = Form(ProfileForm, known=viewer())
    if form.submit(lambda **data: accounts.update(viewer(), **data)):
        say("Your profile is changed.")
        return go(url_for(".show"))
    return page("form", form=form)


@bp.post("/password")
@page_can(permissions.ANY_USER)
def change_password():
    """Other browsers are signed out: whoever knew the old password may be in one of them."""
    form = Form(PasswordForm)
    if form.submit(replace_password):
        say("The password is changed, and your other sessions are ended.")
        return go(url_for(".show"))
    return page("password_form", password=form)


def replace_password(current, new, again):
    if accounts.check_password(viewer().email, current) is None:
        raise Invalid("The password is wrong.", current="This is not your password.")
    accounts.set_password(viewer(), new)
    sign_ins.end_others(viewer(), current_user.sign_in)


@bp.post("/sessions/<sign_in_id>/end")
@page_can(permissions.ANY_USER)
def end(sign_in_id):
    sign_ins.end_one(viewer(), sign_in_id)
    return did("The session is ended.", url_for(".show"))


@bp.post("/sessions/end-others")
@page_can(permissions.ANY_USER)
def end_others():
    sign_ins.end_others(viewer(), current_user.sign_in)
    return did("Every other session is ended.", url_for(".show"))
