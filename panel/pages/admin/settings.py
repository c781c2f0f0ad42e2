"""Settings of the platform."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.ratelimit import api_budget
from panel.schemas.settings import SystemSettings
from panel.services import settings
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry

bp = Blueprint("admin_settings", __name__, url_prefix="/admin/settings")
NAVIGATION = NavigationEntry(
    "control", "Settings", "admin_settings.show", icon="settings", permission="admin:settings:read", position=30
)
READ, WRITE = "admin:settings:read", "admin:settings:write"
SECOND_FACTOR_OPTIONS = (
    ("nobody", "Nobody has to"),
    ("operators", "Operators have to"),
    ("everybody", "Everybody has to"),
)
BUDGET_LABELS = {
    "requests": "Requests",
    "polls": "Looks at tasks",
    "metrics": "Metrics",
    "consoles": "Console and shell sessions",
}


@bp.get("")
@require_page_permission(READ)
def show():
    return settings_page(Form(SystemSettings, initial=settings.load()))


@bp.post("")
@require_page_permission(WRITE)
def update():
    form = Form(SystemSettings)
    if form.submit(lambda **values: settings.update({name: values[name] for name in values if name in request.form})):
        flash_message("The settings are changed.")
        return redirect_to(url_for(".show"))
    return settings_page(form)


def settings_page(form):
    around = {
        "factors": SECOND_FACTOR_OPTIONS,
        "budgets": {name: BUDGET_LABELS[name] for name in api_budget.budgets_in_use()},
    }
    return render("admin/settings/show.html", "form", status=form.status, form=form, **around)
