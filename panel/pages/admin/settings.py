"""Settings of the whole platform."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import page_can
from panel.ratelimit import api_budget
from panel.schemas.settings import SystemSettings
from panel.services import settings
from panel.web.forms import Form
from panel.web.htmx import go, render, say

bp = Blueprint("admin_settings", __name__, url_prefix="/admin/settings")
READ, WRITE = "admin:settings:read", "admin:settings:write"
FACTORS = (("nobody", "Nobody has to"), ("operators", "Operators have to"), ("everybody", "Everybody has to"))
BUDGETS = {
    "requests": "Requests",
    "polls": "Looks at tasks",
    "metrics": "Metrics",
    "consoles": "Console and shell sessions",
}


@bp.get("")
@page_can(READ)
def show():
    return page(Form(SystemSettings, known=settings.stored()))


@bp.post("")
@page_can(WRITE)
def update():
    form = Form(SystemSettings)
    if form.submit(lambda **found: settings.update({name: found[name] for name in found if name in request.form})):
        say("The settings are changed.")
        return go(url_for(".show"))
    return page(form)


def page(form):
    around = {"factors": FACTORS, "budgets": {name: BUDGETS[name] for name in api_budget.used()}}
    return render("admin/settings/show.html", "form", status=form.status, form=form, **around)
