"""The addresses of an instance: adding, releasing, preferring, and the names wanted for them."""

from panel.auth.browser_session import actor
from panel.pages.shared.area import at, found, operating, page
from panel.schemas.network import AddressesIn, ReverseNameIn
from panel.services.instances import ips
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say

DONE = {
    "add": "Address added. The guest has to be configured for it.",
    "remove": "Address released.",
    "set-primary": "Primary address changed.",
}


@page("POST", "/<instance_id>/ips", can="instances.manage")
def change_ips(instance_id):
    instance, form = found(instance_id), Form(AddressesIn)
    done = form.submit(lambda **data: ips.change(instance, actor=actor(), by_operator=operating(), **data))
    words = DONE[form.value("action")] if done else " ".join(form.errors.values())
    return did(words, at(instance, "network"), None if done else "danger")


@page("GET", "/<instance_id>/ip/<address_id>", can="instances.view")
def address(instance_id, address_id):
    return address_page(instance_id, address_id)


def address_page(instance_id, address_id, form=None, block=None):
    instance = found(instance_id)
    held = ips.get(instance, address_id)
    form = form or Form(ReverseNameIn, known=held)
    shown = {"instance": instance, "address": held, "form": form}
    return render("user/instances/network/address.html", block, status=form.status, **shown)


@page("POST", "/<instance_id>/ip/<address_id>", can="instances.manage")
def name_address(instance_id, address_id):
    instance, form = found(instance_id), Form(ReverseNameIn)
    held = ips.get(instance, address_id)
    if form.submit(lambda rdns=None: ips.name(held, rdns)):
        say("The name is noted." if form.result.rdns else "The name is taken back.")
        return go(at(instance, "network"))
    return address_page(instance_id, address_id, form, "form")
