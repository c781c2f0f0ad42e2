"""Subnets: the address space of a hypervisor group."""

from api import kit
from panel.schemas.subnets import (
    FreeAddressOut,
    Statistics,
    SubnetAddressOut,
    SubnetAddressQuery,
    SubnetIn,
    SubnetOut,
    SubnetPatch,
    SubnetQuery,
    WholeQuery,
)
from panel.services import hypervisors, subnets

admin = kit.Admin("subnet", __name__, description="Subnets")


@admin.get(
    "/subnets", op="list", can="admin:subnets:read", query=SubnetQuery, out=kit.build_admin_page_schema(SubnetOut)
)
def listing(query):
    """List the subnets, by name.

    With the figures of each. `search` looks at names and at the beginning of ranges.
    """
    return kit.paginate(subnets.with_statistics(subnets.listing(**query)))


@admin.post("/subnets", op="create", can="admin:subnets:write", body=SubnetIn, out=SubnetOut)
def create(body):
    """Add a subnet.

    Its network, broadcast and gateway addresses are never given out. New instances get addresses of it at once unless
    `enabled` is false. 422 under `cidr` when it overlaps another subnet or is larger than a /16 (IPv4), under `gateway`
    when that lies outside, under `name` when the name is taken.
    """
    group = hypervisors.get_group(body.pop("hypervisor_group_id"), "hypervisor_group_id")
    kit.set_message("The subnet is added.")
    return subnets.create(group, **body)


@admin.get("/subnet/<subnet_id>", op="get", can="admin:subnets:read", out=SubnetOut)
def show(subnet_id):
    """Show a subnet.

    404 when there is no such subnet.
    """
    return subnets.get(subnet_id)


@admin.patch("/subnet/<subnet_id>", op="update", can="admin:subnets:write", body=SubnetPatch, out=SubnetOut)
def update(body, subnet_id):
    """Change a subnet.

    Only what is sent changes; the range and the router never do. New name servers reach instances at their next deploy.
    One that is off gives out no addresses; those in use stay.
    """
    kit.set_message("The subnet is changed.")
    return subnets.update(subnets.get(subnet_id), **body)


@admin.delete("/subnet/<subnet_id>", op="delete", can="admin:subnets:write")
def delete(subnet_id):
    """Remove a subnet.

    Refused while instances hold addresses of it. That is a 409. Its free and reserved addresses go with it.
    """
    subnets.delete(subnets.get(subnet_id))
    kit.set_message("The subnet is removed.")


@admin.get(
    "/subnet/<subnet_id>/ips",
    op="ips",
    can="admin:subnets:read",
    query=SubnetAddressQuery,
    out=kit.build_admin_page_schema(SubnetAddressOut),
)
def ips(query, subnet_id):
    """List the addresses of a subnet, in their order.

    `use` narrows the list to free, used or reserved ones, `search` to the beginning of an address.
    """
    return kit.paginate(subnets.select_addresses(subnets.get(subnet_id), **query))


@admin.get(
    "/subnet/<subnet_id>/available-ips",
    op="available_ips",
    can="admin:subnets:read",
    query=WholeQuery,
    out=kit.build_admin_page_schema(FreeAddressOut),
)
def available_ips(subnet_id):
    """List the addresses that may be given out.

    Complete unless `per_page` is sent. Free means held by no interface and not reserved. IPv6 addresses are made when
    they are needed: listed are those that came back.
    """
    return kit.paginate(subnets.select_free(subnets.get(subnet_id)))


@admin.get("/subnet/<subnet_id>/statistics", op="statistics", can="admin:subnets:read", out=Statistics)
def statistics(subnet_id):
    """Count the addresses of a subnet by use.

    The same figures as in the subnet itself. Of IPv6, only addresses that were ever given out are counted.
    """
    return subnets.get(subnet_id).statistics
