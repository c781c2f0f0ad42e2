"""Addresses, reverse names, traffic and the public interface of an instance."""

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.customer import get_own_instance
from panel.core.errors import NotFound
from panel.schemas.base import describe
from panel.schemas.instances import AddressOut, InterfaceOut
from panel.schemas.network import AddressesIn, BandwidthIn, BandwidthOut, ReverseNameIn
from panel.services import instances
from panel.services.instances import ips, second_interface, traffic

SECOND_CARD = {
    "enable": (second_interface.enable, "The instance has a second network card."),
    "disable": (second_interface.disable, "The instance has no second network card."),
}
InstanceNetwork = kit.Schema.from_dict(
    {"interfaces": fields.List(fields.Nested(InterfaceOut), **describe("The network cards, the first one first."))},
    name="InstanceNetwork",
)
ADDRESSES_FIELD = fields.List(fields.Nested(AddressOut), **describe("The addresses that it was about."))
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
IP_MESSAGES = {
    "add": "The address is the instance's. The guest has to take it up.",
    "remove": "The address is released.",
    "set-primary": "The address is the primary one.",
}


@user.post(
    "/instance/<instance_id>/ips",
    op="change_ips",
    can="instances.manage",
    body=AddressesIn,
    out=kit.build_result_schema(ips=ADDRESSES_FIELD),
)
def change_ips(body, instance_id):
    """Add, release or prefer addresses and prefixes.

    `add` takes the next free ones, up to the number that the plan comes with. A full location answers 422 with
    `ipv4_not_available` or `ipv6_not_available`; for the kinds `routed` and `private` with `ipv6_subnet_not_available`
    or `private_ipv4_not_available`. `remove` releases the named ones; the primary address of a family can
    only be the last. `set-primary` makes the named one what the instance is known by. The hypervisor lets the guest use
    a new address at once. The guest has to take it up: by its own configuration, or with the next deploy.
    """
    addresses = ips.change_addresses(get_own_instance(instance_id), actor=kit.get_current_actor(), **body)
    return {"message": IP_MESSAGES[body["action"]], "ips": addresses}


@user.post(
    "/instance/<instance_id>/ip/<address_id>/rdns",
    op="set_ip_rdns",
    can="instances.manage",
    body=ReverseNameIn,
    out=kit.build_result_schema(ip=fields.Nested(AddressOut, **describe("The address."))),
)
def set_ip_rdns(body, instance_id, address_id):
    """Ask for the reverse name of an address.

    It is noted for those who run the reverse zone; null takes it back.
    """
    address = ips.set_reverse_name(ips.get(get_own_instance(instance_id), address_id), body["rdns"])
    return {"message": "The name is noted.", "ip": address}


@user.get(
    "/instance/<instance_id>/bandwidth",
    op="bandwidth",
    can="instances.view",
    out=kit.build_wrapped_schema("bandwidth", BandwidthOut),
)
def bandwidth(instance_id):
    """Show the traffic of the billing period and of earlier ones."""
    return {"message": None, "bandwidth": traffic.describe_traffic(get_own_instance(instance_id))}


@user.post(
    "/instance/<instance_id>/network/public/enable",
    op="enable_public_network",
    can="instances.manage",
    out=kit.build_result_schema(interface=fields.Nested(InterfaceOut, **describe("The public network card."))),
)
def enable_public_network(instance_id):
    """Connect the public network card.

    Does nothing to one that is connected. Refused with 409 while the traffic of the month is used up, and when an
    operator has cut it off.
    """
    card = traffic.connect(get_own_instance(instance_id), actor=kit.get_current_actor())
    return {"message": "The public network is connected.", "interface": card}


CHANGED_IPS_ANSWER = kit.Schema.from_dict({"ips": ADDRESSES_FIELD}, name="ChangedAddresses")


@admin.post(
    "/instance/<instance_id>/ips", op="change_ips", can=WRITE_PERMISSION, body=AddressesIn, out=CHANGED_IPS_ANSWER
)
def admin_change_ips(body, instance_id):
    """Add, release or prefer addresses.

    Operators may name free addresses of the location, and go beyond the plan. The hypervisor lets the guest use a new
    address at once, and a released one no more; the guest takes it up by its own configuration or with the next deploy.
    422 under `ips` for an address that is not free, not of the location, or the primary one; 422 `ipv4_not_available`
    or `ipv6_not_available` when the location has none left.
    """
    addresses = ips.change_addresses(
        instances.get(instance_id), actor=kit.get_current_actor(), by_operator=True, **body
    )
    kit.set_message(IP_MESSAGES[body["action"]])
    return {"ips": addresses}


@admin.put(
    "/instance/<instance_id>/ips/<address_id>/rdns",
    op="set_ip_rdns",
    can=WRITE_PERMISSION,
    body=ReverseNameIn,
    out=AddressOut,
)
def admin_set_ip_rdns(body, instance_id, address_id):
    """Note the reverse name of an address for those who run the reverse zone.

    Nothing is changed in a name server by this call. null or an empty text takes the name back. 409 for a prefix, 404
    for an address that the instance does not have.
    """
    kit.set_message("The name is noted.")
    return ips.set_reverse_name(ips.get(instances.get(instance_id), address_id), body["rdns"])


@admin.get("/instance/<instance_id>/bandwidth", op="bandwidth", can=READ_PERMISSION, out=BandwidthOut)
def admin_bandwidth(instance_id):
    """Show the traffic of the billing period and of earlier ones.

    Bytes both ways, and why the network is cut off if it is.
    """
    return traffic.describe_traffic(instances.get(instance_id))


@admin.post("/instance/<instance_id>/bandwidth/reset", op="reset_bandwidth", can=WRITE_PERMISSION, out=BandwidthOut)
def reset_bandwidth(instance_id):
    """Set the traffic counter of this billing period to zero.

    A network that was cut off for it comes back. A network that an operator cut off stays cut off. The monthly history
    is not changed.
    """
    instance = instances.get(instance_id)
    traffic.reset(instance)
    kit.set_message("The counter begins anew.")
    return traffic.describe_traffic(instance)


@admin.put(
    "/instance/<instance_id>/modify/bandwidth",
    op="set_bandwidth",
    can=WRITE_PERMISSION,
    body=BandwidthIn,
    out=BandwidthOut,
)
def set_bandwidth(body, instance_id):
    """Change the traffic allowance and the speed of one instance.

    The speed counts at once. Only what is sent changes. The plan stays, and the next change of plan sets both anew. A
    network that was cut off for its traffic comes back when the new allowance is not used up.
    """
    instance = instances.get(instance_id)
    traffic.set_allowance(instance, actor=kit.get_current_actor(), **body)
    kit.set_message("The limits are changed.")
    return traffic.describe_traffic(instance)


@admin.post(
    "/instance/<instance_id>/network/public/enable", op="enable_public_network", can=WRITE_PERMISSION, out=InterfaceOut
)
def admin_enable_public_network(instance_id):
    """Connect the public network card.

    While the traffic is used up, reset the counter or allow more instead. Does nothing to one that is connected.
    Refused with 409 when the instance has no public card, or when its traffic is used up.
    """
    kit.set_message("The public network is connected.")
    return traffic.connect(instances.get(instance_id), actor=kit.get_current_actor(), by_operator=True)


@admin.post(
    "/instance/<instance_id>/network/<switch>/secondary",
    op="secondary_network",
    can=WRITE_PERMISSION,
    out=InstanceNetwork,
)
def switch_secondary_network(instance_id, switch):
    """Add or remove the second network card of an instance.

    `enable` adds a card with the next free private IPv4 address of the location; the machine has it from its next
    start on, and the guest takes it up by its own configuration or with the next deploy. Repeated, it changes nothing.
    `disable` removes the card and frees its addresses. Refused (409) with `not_stopped` while the instance runs and
    with `task_running` while it is rebuilt or moved, (422) with `private_ipv4_not_available` when the location has no
    private address left. Another word than the two is a 404.
    """
    instance = instances.get(instance_id)
    if switch not in SECOND_CARD:
        raise NotFound("No such action. There are enable and disable.")
    act, message = SECOND_CARD[switch]
    act(instance)
    kit.set_message(message)
    return instance


@admin.post("/instance/<instance_id>/network/public/disable", op="disable_public_network", can=WRITE_PERMISSION)
def admin_disable_public_network(instance_id):
    """Cut off the public network card.

    The machine goes on running. It stays cut off until an operator connects it. Open connections end. Refused with 409
    when the instance has no public card.
    """
    traffic.disconnect(instances.get(instance_id), actor=kit.get_current_actor())
    kit.set_message("The public network is cut off.")
