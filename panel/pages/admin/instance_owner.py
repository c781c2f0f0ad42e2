"""Giving an instance to another customer."""

from flask import Blueprint

from panel.auth.browser_session import page_can
from panel.pages.shared.area import at
from panel.pages.shared.instances.operator_tabs import NewOwner
from panel.pages.shared.instances.show import shown
from panel.services import instances, owner_emails
from panel.services.instances import ownership
from panel.web.forms import Form
from panel.web.htmx import go, render, say

bp = Blueprint("admin_instance_owner", __name__, url_prefix="/admin/instances/<instance_id>/owner")


@bp.post("")
@page_can("admin:instances:write")
def assign(instance_id):
    instance, form = instances.get(instance_id), Form(NewOwner)
    if form.submit(lambda owner: ownership.assign(instance, owner_emails.named(owner), field="owner")):
        say(f"{instance.display_name} belongs to {instance.account.email} now.")
        return go(at(instance, "settings"))
    context = shown(instance_id, "settings", giving=form)
    return render("admin/instances/show.html", "settings", status=form.status, **context)
