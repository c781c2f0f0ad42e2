"""How the processors of an instance look to its guest: set by operators alone, as in the API."""

from flask import Blueprint

from panel.auth.browser_session import actor, page_can
from panel.pages.shared.area import at
from panel.pages.shared.instances.show import shown
from panel.schemas.topology import TopologyIn
from panel.services import instances
from panel.services.instances import topology
from panel.web.forms import Form
from panel.web.htmx import go, render, say

bp = Blueprint("admin_instance_topology", __name__, url_prefix="/admin/instances/<instance_id>/topology")


@bp.post("")
@page_can("admin:instances:write")
def modify(instance_id):
    instance, form = instances.get(instance_id), Form(TopologyIn)
    if form.submit(lambda **chosen: topology.modify(instance, chosen, actor=actor())):
        say("The topology is set." + (" The guest has it after its next start." if instance.topology_pending else ""))
        return go(at(instance, "settings"))
    if form.reason == "topology_mismatch":  # it is about the three together, so it is said once
        form.errors = {"": form.errors["sockets"]}
    context = shown(instance_id, "settings", topology=form)
    return render("admin/instances/show.html", "settings", status=form.status, **context)
