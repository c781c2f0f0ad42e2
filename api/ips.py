"""IP addresses of all subnets."""

from api import kit
from panel.core.errors import Conflict
from panel.schemas.network import ReverseNameIn
from panel.schemas.subnets import AddressIn, AddressPatch, AddressQuery, SubnetAddressOut
from panel.services import subnets
from panel.services.instances import ips

admin = kit.Admin("ip", __name__, description="IP addresses")


@admin.get(
    "/ips", op="list", can="admin:subnets:read", query=AddressQuery, out=kit.build_admin_page_schema(SubnetAddressOut)
)
def listing(query):
    """List the IP addresses of all subnets.

    Sorted by subnet and address, with the instance each address is assigned to.
    """
    return kit.paginate(subnets.list_all_addresses(**query))


@admin.post("/ips", op="create", can="admin:subnets:write", body=AddressIn, out=SubnetAddressOut)
def create(body):
    """Add an address to a subnet, or a prefix to a routed subnet.

    Use it to restore a deleted address, or to reserve an IPv6 address or prefix in advance. Returns 422 under `ip` for
    an address outside the subnet, for its network, broadcast or gateway address, and for an address that is already
    listed. An address that is not reserved can be assigned to the next instance.
    """
    address = subnets.add_address(subnets.get(body.pop("subnet_id"), "subnet_id"), **body)
    kit.set_message("Address created.")
    return address


@admin.delete("/ip/<address_id>", op="delete", can="admin:subnets:write")
def delete(address_id):
    """Delete a free or reserved address from its subnet.

    It is not assigned until it is added again. Exception: an IPv6 address or prefix that was added in advance is still
    assigned when its turn comes. Returns 409 while an instance uses it: release it first.
    """
    subnets.delete_address(subnets.get_address(address_id))
    kit.set_message("Address deleted.")


@admin.patch("/ip/<address_id>", op="update", can="admin:subnets:write", body=AddressPatch, out=SubnetAddressOut)
def update(body, address_id):
    """Reserve an address or release the reservation.

    A reserved address is not assigned to instances. `note` is only visible to operators. Returns 409 for the
    reservation of an address that is assigned to an instance.
    """
    address = subnets.get_address(address_id)
    subnets.set_reserved(address, **{"reserved": address.reserved, "note": address.note, **body})
    kit.set_message("Address updated.")
    return address


@admin.post("/ip/<address_id>/rdns", op="set_rdns", can="admin:subnets:write", body=ReverseNameIn, out=SubnetAddressOut)
def set_rdns(body, address_id):
    """Set the reverse DNS name of an assigned address.

    The name is stored for the operators of the reverse zone; this call does not change a name server. null or an empty
    string removes the name. Returns 409 if the address is not assigned to an instance or is a prefix.
    """
    address = subnets.get_address(address_id)
    if address.interface_id is None:
        raise Conflict("This address is not assigned to an instance.")
    kit.set_message("Reverse DNS name saved.")
    return ips.set_reverse_name(address, body["rdns"])
