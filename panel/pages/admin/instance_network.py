"""Network settings of an instance that only operators have: limits, traffic counter, link state."""

from flask import Blueprint

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.pages.shared.area import tab_url
from panel.pages.shared.instances.show import build_context
from panel.schemas.network import BandwidthIn
from panel.services import instances
from panel.services.instances import traffic
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("admin_instance_network", __name__, url_prefix="/admin/instances/<instance_id>/network")
WRITE_PERMISSION = "admin:instances:write"


@bp.post("/limits")
@require_page_permission(WRITE_PERMISSION)
def limit(instance_id):
    instance, form = instances.get(instance_id), Form(BandwidthIn)
    if form.submit(lambda **data: traffic.set_allowance(instance, actor=get_current_actor(), **data)):
        flash_message(_("Limits saved."))
        return redirect_to(tab_url(instance, "network"))
    context = build_context(instance_id, "network", limits=form)
    return render("admin/instances/show.html", "limits", status=form.status, **context)


@bp.post("/reset")
@require_page_permission(WRITE_PERMISSION)
def reset(instance_id):
    instance = instances.get(instance_id)
    traffic.reset(instance)
    return build_action_response(_("Traffic counter reset."), tab_url(instance, "network"))


@bp.post("/<any(connect, disconnect):state>")
@require_page_permission(WRITE_PERMISSION)
def cable(instance_id, state):
    instance = instances.get(instance_id)
    if state == "connect":
        traffic.connect(instance, actor=get_current_actor(), by_operator=True)
        return build_action_response(_("Network connected."), tab_url(instance, "network"))
    traffic.disconnect(instance, actor=get_current_actor())
    return build_action_response(_("Network disconnected. The instance keeps running."), tab_url(instance, "network"))
