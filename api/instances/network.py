"""Addresses, reverse DNS names, traffic and the public interface of an instance."""

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
    "enable": (second_interface.enable, "Second network interface added. It takes effect at next boot."),
    "disable": (second_interface.disable, "Second network interface removed."),
}
InstanceNetwork = kit.Schema.from_dict(
    {"interfaces": fields.List(fields.Nested(InterfaceOut), **describe("Network interfaces, in order."))},
    name="InstanceNetwork",
)
ADDRESSES_FIELD = fields.List(fields.Nested(AddressOut), **describe("The affected addresses."))
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
IP_MESSAGES = {
    "add": "Address added. Configure it in the guest.",
    "remove": "Address removed.",
    "set-primary": "Primary address changed.",
}


@user.post(
    "/instance/<instance_id>/ips",
    op="change_ips",
    can="instances.manage",
    body=AddressesIn,
    out=kit.build_result_schema(ips=ADDRESSES_FIELD),
)
def change_ips(body, instance_id):
    """Add or remove addresses and prefixes, or change the primary address.

    `add` assigns the next free ones, up to the number included in the plan. Returns 422 `ipv4_not_available` or
    `ipv6_not_available` if the location has none left, and `ipv6_subnet_not_available` or `private_ipv4_not_available`
    for the kinds `routed` and `private`. `remove` releases the given ones; the primary address of a family can only be
    removed last. `set-primary` changes the primary address. The hypervisor allows a new address immediately; the guest
    uses it after a change of its own configuration or the next deployment.
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
    """Set the reverse DNS name of an address.

    The name is stored for the operators of the reverse zone; null removes it.
    """
    address = ips.set_reverse_name(ips.get(get_own_instance(instance_id), address_id), body["rdns"])
    return {"message": "Reverse DNS name saved.", "ip": address}


@user.get(
    "/instance/<instance_id>/bandwidth",
    op="bandwidth",
    can="instances.view",
    out=kit.build_wrapped_schema("bandwidth", BandwidthOut),
)
def bandwidth(instance_id):
    """Get the traffic of the current billing period and of earlier ones."""
    return {"message": None, "bandwidth": traffic.describe_traffic(get_own_instance(instance_id))}


@user.post(
    "/instance/<instance_id>/network/public/enable",
    op="enable_public_network",
    can="instances.manage",
    out=kit.build_result_schema(interface=fields.Nested(InterfaceOut, **describe("The public network interface."))),
)
def enable_public_network(instance_id):
    """Connect the public network interface.

    Does nothing if it is connected. Returns 409 while the traffic of the month is used up, and if an operator
    disconnected it.
    """
    card = traffic.connect(get_own_instance(instance_id), actor=kit.get_current_actor())
    return {"message": "Network connected.", "interface": card}


CHANGED_IPS_ANSWER = kit.Schema.from_dict({"ips": ADDRESSES_FIELD}, name="ChangedAddresses")


@admin.post(
    "/instance/<instance_id>/ips", op="change_ips", can=WRITE_PERMISSION, body=AddressesIn, out=CHANGED_IPS_ANSWER
)
def admin_change_ips(body, instance_id):
    """Add or remove addresses, or change the primary address.

    Operators can select free addresses of the location and exceed the plan. The hypervisor allows a new address and
    blocks a removed one immediately; the guest uses it after a change of its own configuration or the next deployment.
    Returns 422 under `ips` for an address that is not free, not in the location, or the primary one; 422
    `ipv4_not_available` or `ipv6_not_available` if the location has none left.
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
    """Set the reverse DNS name of an address.

    The name is stored for the operators of the reverse zone; this call does not change a name server. null or an empty
    string removes the name. Returns 409 for a prefix, and 404 for an address of another instance.
    """
    kit.set_message("Reverse DNS name saved.")
    return ips.set_reverse_name(ips.get(instances.get(instance_id), address_id), body["rdns"])


@admin.get("/instance/<instance_id>/bandwidth", op="bandwidth", can=READ_PERMISSION, out=BandwidthOut)
def admin_bandwidth(instance_id):
    """Get the traffic of the current billing period and of earlier ones.

    Contains received and sent bytes, and the reason if the network is disconnected.
    """
    return traffic.describe_traffic(instances.get(instance_id))


@admin.post("/instance/<instance_id>/bandwidth/reset", op="reset_bandwidth", can=WRITE_PERMISSION, out=BandwidthOut)
def reset_bandwidth(instance_id):
    """Reset the traffic counter of the current billing period.

    A network that was disconnected because of the traffic is connected again, but not one that an operator
    disconnected. The monthly history is not changed.
    """
    instance = instances.get(instance_id)
    traffic.reset(instance)
    kit.set_message("Traffic counter reset.")
    return traffic.describe_traffic(instance)


@admin.put(
    "/instance/<instance_id>/modify/bandwidth",
    op="set_bandwidth",
    can=WRITE_PERMISSION,
    body=BandwidthIn,
    out=BandwidthOut,
)
def set_bandwidth(body, instance_id):
    """Change the traffic allowance and the port speed of an instance.

    Only the fields you send are changed. The port speed changes immediately. The plan stays the same; the next change
    of plan resets both. A network that was disconnected because of the traffic is connected again if the new allowance
    is not used up.
    """
    instance = instances.get(instance_id)
    traffic.set_allowance(instance, actor=kit.get_current_actor(), **body)
    kit.set_message("Limits updated.")
    return traffic.describe_traffic(instance)


@admin.post(
    "/instance/<instance_id>/network/public/enable", op="enable_public_network", can=WRITE_PERMISSION, out=InterfaceOut
)
def admin_enable_public_network(instance_id):
    """Connect the public network interface.

    Does nothing if it is connected. Returns 409 if the instance has no public interface, or if its traffic is used up:
    reset the counter or increase the allowance instead.
    """
    kit.set_message("Network connected.")
    return traffic.connect(instances.get(instance_id), actor=kit.get_current_actor(), by_operator=True)


@admin.post(
    "/instance/<instance_id>/network/<switch>/secondary",
    op="secondary_network",
    can=WRITE_PERMISSION,
    out=InstanceNetwork,
)
def switch_secondary_network(instance_id, switch):
    """Add or remove the second network interface of an instance.

    `enable` adds an interface with the next free private IPv4 address of the location. It takes effect at the next
    start; the guest uses it after a change of its own configuration or the next deployment. `disable` removes the
    interface and releases its addresses. Does nothing if there is nothing to change. Returns 409 `not_stopped` while
    the instance is running and `task_running` during a reinstall or migration, 422 `private_ipv4_not_available` if the
    location has no private address left, and 404 for another action.
    """
    instance = instances.get(instance_id)
    if switch not in SECOND_CARD:
        raise NotFound("No such action. Use enable or disable.")
    act, message = SECOND_CARD[switch]
    act(instance)
    kit.set_message(message)
    return instance


@admin.post("/instance/<instance_id>/network/public/disable", op="disable_public_network", can=WRITE_PERMISSION)
def admin_disable_public_network(instance_id):
    """Disconnect the public network interface.

    The instance keeps running, and open connections end. It stays disconnected until an operator connects it. Returns
    409 if the instance has no public interface.
    """
    traffic.disconnect(instances.get(instance_id), actor=kit.get_current_actor())
    kit.set_message("Network disconnected. The instance keeps running.")
