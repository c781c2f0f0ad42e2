"""What the pages of micro VMs have in common in both areas."""

from panel.auth.browser_session import get_current_access
from panel.core.errors import NotFound
from panel.pages.shared.area import is_operator_area
from panel.services import microvms
from panel.web.htmx import is_partial, render


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
