"""Settings of an account for its new micro VMs."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_access, permission_error, require_page_permission
from panel.core.db import session
from panel.pages.customer.microvms.forms import list_timeouts
from panel.schemas.microvm_settings import MicrovmSettingsPatch
from panel.services import microvms
from panel.services.microvms import settings
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("microvm_settings", __name__, url_prefix="/microvm-settings")


@bp.get("")
@require_page_permission("microvm.view")
def edit():
    return settings_page(Form(MicrovmSettingsPatch, initial=settings.get(get_current_access())))


@bp.post("")
@require_page_permission("microvm.manage")
def update():
    form = Form(MicrovmSettingsPatch)
    if form.submit(lambda **changes: settings.update(get_current_access(), changes)):
        flash_message(_("Settings saved. They apply to new micro VMs."))
        return redirect_to(url_for(".edit"))
    return settings_page(form, "form")


def settings_page(form, block=None):
    access = get_current_access()
    context = {
        "locations": [(location.id, location.display_name) for location in microvms.list_locations(access)],
        "images": session.scalars(microvms.images.select_available(access)).all(),
        "timeouts": [choice for choice in list_timeouts(form.get_value("timeout_seconds")) if choice[0]],
        "disabled_reason": permission_error("microvm.manage") or settings.change_error(access),
    }
    return render("customer/microvm_settings/edit.html", block, status=form.status, form=form, **context)
