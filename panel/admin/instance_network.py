"""The network of anybody's instance: limits, the cable, and addresses."""

from flask import Blueprint, url_for

from panel.auth.browser import actor, page_can
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.schemas.network import AddressesIn, BandwidthIn, ReverseNameIn
from panel.services import instances
from panel.services.instances import ips, traffic

bp = Blueprint("admin_instance_network", __name__, url_prefix="/admin/instances/<instance_id>/network")
READ, WRITE = "admin:instances:read", "admin:instances:write"


def back(instance_id):
    return url_for(".show", instance_id=instance_id)


@bp.get("")
@page_can(READ)
def show(instance_id):
    return shown(instance_id, block="live")


def shown(instance_id, limits=None, given=None, block=None):
    instance = instances.get(instance_id)
    card = instance.primary_interface
    known = {"bandwidth": instance.bandwidth, "port_speed": card.port_speed if card else 0}
    forms = {
        "limits": limits or Form(BandwidthIn, known=known),
        "given": given or Form(AddressesIn, known={"family": 4}),
    }
    status = max(form.status for form in forms.values())
    passed = traffic.of(instance)
    return render("admin/instances/network.html", block, status=status, instance=instance, passed=passed, **forms)


@bp.post("/limits")
@page_can(WRITE)
def limit(instance_id):
    instance, form = instances.get(instance_id), Form(BandwidthIn)
    if form.submit(lambda **data: traffic.allow(instance, actor=actor(), **data)):
        say("The limits are changed.")
        return go(back(instance_id))
    return shown(instance_id, limits=form)


@bp.post("/reset")
@page_can(WRITE)
def reset(instance_id):
    traffic.reset(instances.get(instance_id))
    return did("The counter begins anew.", back(instance_id))


@bp.post("/<any(connect, disconnect):way>")
@page_can(WRITE)
def cable(instance_id, way):
    instance = instances.get(instance_id)
    if way == "connect":
        traffic.connect(instance, actor=actor(), by_operator=True)
        return did("The network is connected.", back(instance_id))
    traffic.disconnect(instance, actor=actor())
    return did("The network is cut off. The instance goes on running.", back(instance_id))


@bp.post("/ips")
@page_can(WRITE)
def change_ips(instance_id):
    instance, form = instances.get(instance_id), Form(AddressesIn)
    if form.submit(lambda **data: ips.change(instance, actor=actor(), by_operator=True, **data)):
        return did("The addresses are changed.", back(instance_id))
    return did(" ".join(form.errors.values()), back(instance_id), "danger")


@bp.post("/ip/<address_id>")
@page_can(WRITE)
def name(instance_id, address_id):
    found, form = ips.get(instances.get(instance_id), address_id), Form(ReverseNameIn)
    named = form.submit(lambda rdns=None: ips.name(found, rdns))
    words = "The name is noted." if named else " ".join(form.errors.values())
    return did(words, back(instance_id), "success" if named else "danger")
