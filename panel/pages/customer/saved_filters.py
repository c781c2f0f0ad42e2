"""Saving the filter of a list under a name, in both areas."""

from flask import Blueprint, current_app, url_for
from werkzeug.routing import BuildError

from panel.auth import permissions
from panel.auth.browser_session import get_current_account, has_permission, require_page_permission
from panel.core.errors import Invalid
from panel.schemas.saved_filters import SavedFilterIn
from panel.services import saved_filters
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to
from panel.web.translation import gettext as _

bp = Blueprint("saved_filters", __name__, url_prefix="/saved-filters")
OTHER_LISTS = {
    "activity.log",
    "admin_backup_copies.listing",
    "admin_backup_restore_tests.listing",
    "admin_billing.ledger",
    "admin_installation_backups.destinations",
    "admin_instance_backups.missing",
    "admin_microvms.profile_index",
    "admin_tasks.failed",
    "billing.entries",
    "billing.show",
    "volumes.backups",
}
"""Pages with a list that are not the `index` of a resource."""


@bp.post("")
@require_page_permission(permissions.ANY_USER)
@audit_label("Save filter")
def save():
    form = Form(SavedFilterIn)
    if form.submit(save_filter):
        flash_message(_("Filter %(name)s saved.", name=form.result.name))
        return redirect_to(build_list_url(form.result))
    sentence = next(iter(form.errors.values()))
    raise Invalid(sentence, **form.errors)


def save_filter(page, **values):
    if not is_visible_list(page):
        raise Invalid(_("This page has no list."), page=_("This page has no list."))
    return saved_filters.save(get_current_account(), page=page, **values)


def is_visible_list(page):
    """Return whether the page has a list that the person may see."""
    if not (page.endswith(".index") or page in OTHER_LISTS) or find_list_url(page) is None:
        return False
    return has_permission(current_app.view_functions[page].permission)


@bp.post("/<filter_id>/delete")
@require_page_permission(permissions.ANY_USER)
@audit_label("Remove saved filter")
def delete(filter_id):
    row = saved_filters.get(filter_id, get_current_account())
    saved_filters.delete(row)
    flash_message(_("Filter %(name)s removed.", name=row.name))
    return redirect_to(find_list_url(row.page) or url_for("overview.show"))


def find_list_url(page):
    """Return the address of a list without a filter, or None for a page that needs arguments."""
    try:
        return url_for(page)
    except BuildError:
        return None


def build_list_url(row):
    return f"{find_list_url(row.page)}?{row.query}"
