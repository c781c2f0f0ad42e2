"""Settings of the platform."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.ratelimit import api_budget
from panel.schemas.settings import SystemSettings
from panel.services import settings
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_settings", __name__, url_prefix="/admin/settings")
NAVIGATION = NavigationEntry(
    "control", "Settings", "admin_settings.show", icon="settings", permission="admin:settings:read", position=30
)
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
SECOND_FACTOR_OPTIONS = (
    ("nobody", lazy_gettext("Optional")),
    ("operators", lazy_gettext("Required for operators")),
    ("everybody", lazy_gettext("Required for everyone")),
)
BUDGET_LABELS = {
    "requests": lazy_gettext("Requests"),
    "polls": lazy_gettext("Task polling"),
    "metrics": lazy_gettext("Metrics"),
    "consoles": lazy_gettext("Console and shell sessions"),
}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def show():
    return settings_page(Form(SystemSettings, initial=settings.load()))


@bp.post("")
@require_page_permission(WRITE_PERMISSION)
def update():
    form = Form(SystemSettings)
    if form.submit(lambda **values: settings.update({name: values[name] for name in values if name in request.form})):
        flash_message(_("Settings saved."))
        return redirect_to(url_for(".show"))
    return settings_page(form)


def settings_page(form):
    context = {
        "factors": SECOND_FACTOR_OPTIONS,
        "budgets": {name: BUDGET_LABELS[name] for name in api_budget.list_budgets_in_use()},
    }
    return render("admin/settings/show.html", "form", status=form.status, form=form, **context)
