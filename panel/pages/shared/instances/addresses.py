"""The addresses of an instance: add, release, prefer, and their reverse names."""

from panel.auth.browser_session import get_current_actor
from panel.pages.shared.area import get_instance, is_operator_area, route, tab_url
from panel.schemas.network import AddressesIn, ReverseNameIn
from panel.services.instances import ips
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

ADDRESS_ACTION_MESSAGES = {
    "add": lazy_gettext("Address added. Configure it in the guest as well."),
    "remove": lazy_gettext("Address released."),
    "set-primary": lazy_gettext("Primary address changed."),
}


@route("POST", "/<instance_id>/ips", can="instances.manage")
def change_ips(instance_id):
    instance, form = get_instance(instance_id), Form(AddressesIn)
    done = form.submit(
        lambda **data: ips.change_addresses(instance, actor=get_current_actor(), by_operator=is_operator_area(), **data)
    )
    message = ADDRESS_ACTION_MESSAGES[form.get_value("action")] if done else " ".join(form.errors.values())
    return build_action_response(message, tab_url(instance, "network"), None if done else "danger")


@route("GET", "/<instance_id>/ip/<address_id>", can="instances.view")
def address(instance_id, address_id):
    return address_page(instance_id, address_id)


def address_page(instance_id, address_id, form=None, block=None):
    instance = get_instance(instance_id)
    address = ips.get(instance, address_id)
    form = form or Form(ReverseNameIn, initial=address)
    context = {"instance": instance, "address": address, "form": form}
    return render("customer/instances/network/address.html", block, status=form.status, **context)


@route("POST", "/<instance_id>/ip/<address_id>", can="instances.manage")
def name_address(instance_id, address_id):
    instance, form = get_instance(instance_id), Form(ReverseNameIn)
    address = ips.get(instance, address_id)
    if form.submit(lambda rdns=None: ips.set_reverse_name(address, rdns)):
        flash_message(_("Reverse DNS name saved.") if form.result.rdns else _("Reverse DNS name removed."))
        return redirect_to(tab_url(instance, "network"))
    return address_page(instance_id, address_id, form, "form")
