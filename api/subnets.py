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
    """List subnets with their address counts, by name.

    `search` matches names and the start of ranges.
    """
    return kit.paginate(subnets.with_statistics(subnets.listing(**query)))


@admin.post("/subnets", op="create", can="admin:subnets:write", body=SubnetIn, out=SubnetOut)
def create(body):
    """Create a subnet.

    Its network, broadcast and gateway addresses are never assigned. New instances get addresses from it immediately
    unless `enabled` is false. Returns 422 under `cidr` if it overlaps another subnet or is larger than a /16 (IPv4),
    under `gateway` if the gateway is outside the subnet, and under `name` if the name is already used.
    """
    group = hypervisors.get_group(body.pop("hypervisor_group_id"), "hypervisor_group_id")
    kit.set_message("Subnet created.")
    return subnets.create(group, **body)


@admin.get("/subnet/<subnet_id>", op="get", can="admin:subnets:read", out=SubnetOut)
def show(subnet_id):
    """Get a subnet.

    Returns 404 if the subnet does not exist.
    """
    return subnets.get(subnet_id)


@admin.patch("/subnet/<subnet_id>", op="update", can="admin:subnets:write", body=SubnetPatch, out=SubnetOut)
def update(body, subnet_id):
    """Update a subnet.

    Only the fields you send are changed; range and gateway cannot be changed. Instances get new name servers with their
    next deployment. A disabled subnet assigns no addresses; assigned addresses stay.
    """
    kit.set_message("Subnet updated.")
    return subnets.update(subnets.get(subnet_id), **body)


@admin.delete("/subnet/<subnet_id>", op="delete", can="admin:subnets:write")
def delete(subnet_id):
    """Delete a subnet with its free and reserved addresses.

    Returns 409 while instances use addresses from it.
    """
    subnets.delete(subnets.get(subnet_id))
    kit.set_message("Subnet deleted.")


@admin.get(
    "/subnet/<subnet_id>/ips",
    op="ips",
    can="admin:subnets:read",
    query=SubnetAddressQuery,
    out=kit.build_admin_page_schema(SubnetAddressOut),
)
def ips(query, subnet_id):
    """List the addresses of a subnet, in order.

    Filter with `use` (free, used or reserved) and `search` (the start of an address).
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
    """List the addresses of a subnet that can be assigned.

    The list is complete unless `per_page` is sent. Contains addresses that are neither assigned nor reserved. IPv6
    addresses are created on demand: only released ones are listed.
    """
    return kit.paginate(subnets.select_free(subnets.get(subnet_id)))


@admin.get("/subnet/<subnet_id>/statistics", op="statistics", can="admin:subnets:read", out=Statistics)
def statistics(subnet_id):
    """Count the addresses of a subnet by use.

    Returns the same values as the subnet itself. For IPv6, only addresses that were assigned at least once are counted.
    """
    return subnets.get(subnet_id).statistics
