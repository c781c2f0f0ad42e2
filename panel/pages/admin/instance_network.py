"""What only operators do with the network of an instance: limits, the counter, and the cable."""

from flask import Blueprint

from panel.auth.browser_session import actor, page_can
from panel.pages.shared.area import at
from panel.pages.shared.instances.show import shown
from panel.schemas.network import BandwidthIn
from panel.services import instances
from panel.services.instances import traffic
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say

bp = Blueprint("admin_instance_network", __name__, url_prefix="/admin/instances/<instance_id>/network")
WRITE = "admin:instances:write"


@bp.post("/limits")
@page_can(WRITE)
def limit(instance_id):
    instance, form = instances.get(instance_id), Form(BandwidthIn)
    if form.submit(lambda **data: traffic.allow(instance, actor=actor(), **data)):
        say("The limits are changed.")
        return go(at(instance, "network"))
    context = shown(instance_id, "network", limits=form)
    return render("admin/instances/show.html", "limits", status=form.status, **context)


@bp.post("/reset")
@page_can(WRITE)
def reset(instance_id):
    instance = instances.get(instance_id)
    traffic.reset(instance)
    return did("The counter begins anew.", at(instance, "network"))


@bp.post("/<any(connect, disconnect):way>")
@page_can(WRITE)
def cable(instance_id, way):
    instance = instances.get(instance_id)
    if way == "connect":
        traffic.connect(instance, actor=actor(), by_operator=True)
        return did("The network is connected.", at(instance, "network"))
    traffic.disconnect(instance, actor=actor())
    return did("The network is cut off. The instance goes on running.", at(instance, "network"))
