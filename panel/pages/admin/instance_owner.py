"""Changing the owner of an instance."""

from flask import Blueprint

from panel.auth.browser_session import require_page_permission
from panel.pages.shared.area import tab_url
from panel.pages.shared.instances.operator_tabs import NewOwnerForm
from panel.pages.shared.instances.show import build_context
from panel.services import instances, owner_emails
from panel.services.instances import ownership
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("admin_instance_owner", __name__, url_prefix="/admin/instances/<instance_id>/owner")


@bp.post("")
@require_page_permission("admin:instances:write")
def assign(instance_id):
    instance, form = instances.get(instance_id), Form(NewOwnerForm)
    if form.submit(
        lambda owner: ownership.assign(instance, owner_emails.get_account_by_email(owner), error_field="owner")
    ):
        flash_message(_("%(name)s now belongs to %(email)s.", name=instance.display_name, email=instance.account.email))
        return redirect_to(tab_url(instance, "settings"))
    context = build_context(instance_id, "settings", new_owner_form=form)
    return render("admin/instances/show.html", "settings", status=form.status, **context)
