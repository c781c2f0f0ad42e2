"""The addresses of an instance: adding, releasing, preferring, and the names wanted for them."""

from flask import url_for

from panel.auth.browser import actor, page_can
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.schemas.network import AddressesIn, ReverseNameIn
from panel.services.instances import ips
from panel.user.instances import bp
from panel.user.instances.show import mine

DONE = {
    "add": "The address is the instance's. The guest has to take it up.",
    "remove": "The address is released.",
    "set-primary": "The address is the primary one.",
}


@bp.post("/<instance_id>/ips")
@page_can("instances.manage")
def change_ips(instance_id):
    instance, form = mine(instance_id), Form(AddressesIn)
    done = form.submit(lambda **data: ips.change(instance, actor=actor(), **data))
    back = url_for(".tab", instance_id=instance_id, tab="network")
    return did(
        DONE[form.value("action")] if done else " ".join(form.errors.values()), back, "success" if done else "danger"
    )


@bp.get("/<instance_id>/ip/<address_id>")
@page_can("instances.view")
def address(instance_id, address_id):
    return address_page(instance_id, address_id)


def address_page(instance_id, address_id, form=None, block=None):
    instance = mine(instance_id)
    found = ips.get(instance, address_id)
    form = form or Form(ReverseNameIn, known=found)
    shown = {"instance": instance, "address": found, "form": form}
    return render("user/instances/network/address.html", block, status=form.status, **shown)


@bp.post("/<instance_id>/ip/<address_id>")
@page_can("instances.manage")
def name_address(instance_id, address_id):
    found, form = ips.get(mine(instance_id), address_id), Form(ReverseNameIn)
    if form.submit(lambda rdns=None: ips.name(found, rdns)):
        say("The name is noted." if form.result.rdns else "The name is taken back.")
        return go(url_for(".tab", instance_id=instance_id, tab="network"))
    return address_page(instance_id, address_id, form, "form")
