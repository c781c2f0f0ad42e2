"""IP addresses of all subnets."""

from api import kit
from panel.core.errors import Conflict
from panel.schemas.network import ReverseNameIn
from panel.schemas.subnets import AddressIn, AddressPatch, AddressQuery, SubnetAddressOut
from panel.services import subnets
from panel.services.instances import ips

admin = kit.Admin("ip", __name__, description="Addresses")


@admin.get(
    "/ips", op="list", can="admin:subnets:read", query=AddressQuery, out=kit.build_admin_page_schema(SubnetAddressOut)
)
def listing(query):
    """List the addresses of every subnet.

    Ordered by subnet and address, with the instance that holds each.
    """
    return kit.paginate(subnets.list_all_addresses(**query))


@admin.post("/ips", op="create", can="admin:subnets:write", body=AddressIn, out=SubnetAddressOut)
def create(body):
    """Add an address to a subnet, or a prefix to a routed subnet.

    For an address that was removed, and for an IPv6 address or prefix that is to be reserved before it is given out.
    Refused with 422 under `ip`: an address outside of the subnet, its network, broadcast or gateway address, and one
    that is listed already. An address that is not reserved may be given to the next instance.
    """
    address = subnets.add_address(subnets.get(body.pop("subnet_id"), "subnet_id"), **body)
    kit.set_message("The address is added.")
    return address


@admin.delete("/ip/<address_id>", op="delete", can="admin:subnets:write")
def delete(address_id):
    """Remove a free or reserved address from its subnet.

    It is not given out any more until it is added again. Only an IPv6 address or prefix that was added before its turn
    is given out when its turn comes. Refused with 409 while an instance holds it: release it first.
    """
    subnets.delete_address(subnets.get_address(address_id))
    kit.set_message("The address is removed.")


@admin.patch("/ip/<address_id>", op="update", can="admin:subnets:write", body=AddressPatch, out=SubnetAddressOut)
def update(body, address_id):
    """Reserve an address or let it go again.

    An address that an instance holds cannot be reserved. That is a 409. A reserved one is not given out. `note` is for
    operators only.
    """
    address = subnets.get_address(address_id)
    subnets.set_reserved(address, **{"reserved": address.reserved, "note": address.note, **body})
    kit.set_message("The address is changed.")
    return address


@admin.post("/ip/<address_id>/rdns", op="set_rdns", can="admin:subnets:write", body=ReverseNameIn, out=SubnetAddressOut)
def set_rdns(body, address_id):
    """Note the reverse name of an address that an instance holds.

    Nothing is changed in a name server by this call. null or an empty text takes the name back. 409 when nobody holds
    the address or when it is a prefix.
    """
    address = subnets.get_address(address_id)
    if address.interface_id is None:
        raise Conflict("Nobody holds this address.")
    kit.set_message("The name is noted.")
    return ips.set_reverse_name(address, body["rdns"])
