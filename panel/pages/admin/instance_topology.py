"""The processor topology of an instance. Only operators set it, as in the API."""

from flask import Blueprint

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.pages.shared.area import tab_url
from panel.pages.shared.instances.show import build_context
from panel.schemas.topology import TopologyIn
from panel.services import instances
from panel.services.instances import topology
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("admin_instance_topology", __name__, url_prefix="/admin/instances/<instance_id>/topology")


@bp.post("")
@require_page_permission("admin:instances:write")
def modify(instance_id):
    instance, form = instances.get(instance_id), Form(TopologyIn)
    if form.submit(lambda **chosen: topology.modify(instance, chosen, actor=get_current_actor())):
        is_pending = instance.topology_pending
        flash_message(_("Topology saved. It takes effect at next boot.") if is_pending else _("Topology saved."))
        return redirect_to(tab_url(instance, "settings"))
    if form.reason == "topology_mismatch":  # the error is about the three fields together, so it is shown once
        form.errors = {"": form.errors["sockets"]}
    context = build_context(instance_id, "settings", topology=form)
    return render("admin/instances/show.html", "settings", status=form.status, **context)
