"""What the pages of micro VMs have in common in both areas."""

from flask import request

from panel.auth.browser_session import get_current_access, get_current_actor
from panel.core.errors import Invalid, NotFound
from panel.pages.shared.area import is_operator_area
from panel.services import microvms
from panel.web.htmx import flash_message, is_partial, render
from panel.web.translation import gettext as _


def find_or_render_ended(microvm_id):
    """Return the micro VM and None; or, where the open page of one that ended refreshes itself, None and the block that
    says so. Raise NotFound otherwise."""
    access = None if is_operator_area() else get_current_access()
    try:
        return microvms.get(microvm_id, access), None
    except NotFound:
        if not is_partial() or not microvms.has_ended(microvm_id, access):
            raise
    return None, render("customer/microvms/ended.html", "live")


def destroy_confirmed(microvm):
    """Destroy the micro VM. Requires its name, because its data is lost."""
    if request.form.get("typed", "").strip() != microvm.name:
        error = _("The name does not match. Nothing was destroyed.")
        raise Invalid(error, typed=error)
    microvms.destroy(microvm, actor=get_current_actor())
    flash_message(_("Destruction of micro VM %(name)s requested.", name=microvm.name))
