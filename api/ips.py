"""Addresses of every subnet."""

from api import kit
from panel.errors import Conflict
from panel.schemas.network import ReverseNameIn
from panel.schemas.subnets import AddressPatch, AddressQuery, SubnetAddressOut
from panel.services import subnets
from panel.services.instances import ips

admin = kit.Admin("ip", __name__, description="Addresses")


@admin.get("/ips", op="list", can="admin:subnets:read", query=AddressQuery, out=kit.rows(SubnetAddressOut))
def listing(query):
    """List the addresses of every subnet."""
    return kit.paginate(subnets.every_address(**query))


@admin.patch("/ip/<address_id>", op="update", can="admin:subnets:write", body=AddressPatch, out=SubnetAddressOut)
def update(body, address_id):
    """Reserve an address or let it go again. An address that an instance holds cannot be reserved."""
    address = subnets.address(address_id)
    subnets.reserve(address, **{"reserved": address.reserved, "note": address.note, **body})
    kit.say("The address is changed.")
    return address


@admin.post("/ip/<address_id>/rdns", op="set_rdns", can="admin:subnets:write", body=ReverseNameIn, out=SubnetAddressOut)
def set_rdns(body, address_id):
    """Note the reverse name of an address that an instance holds."""
    address = subnets.address(address_id)
    if address.interface_id is None:
        raise Conflict("Nobody holds this address.")
    kit.say("The name is noted.")
    return ips.name(address, body["rdns"])
