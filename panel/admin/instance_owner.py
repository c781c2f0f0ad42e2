"""Giving an instance to another customer."""

from flask import Blueprint

from panel.auth.browser import page_can
from panel.forms import Form
from panel.htmx import go, render, say
from panel.instance_pages.operators import NewOwner
from panel.instance_pages.show import shown
from panel.instance_pages.sides import at
from panel.services import instances, owners
from panel.services.instances import ownership

bp = Blueprint("admin_instance_owner", __name__, url_prefix="/admin/instances/<instance_id>/owner")


@bp.post("")
@page_can("admin:instances:write")
def assign(instance_id):
    instance, form = instances.get(instance_id), Form(NewOwner)
    if form.submit(lambda owner: ownership.assign(instance, owners.named(owner), field="owner")):
        say(f"{instance.display_name} belongs to {instance.account.email} now.")
        return go(at(instance, "settings"))
    context = shown(instance_id, "settings", giving=form)
    return render("admin/instances/show.html", "settings", status=form.status, **context)
