"""Hypervisor groups, which customers see as locations."""

from api import kit
from panel.schemas.hypervisors import HypervisorGroupIn, HypervisorGroupOut, HypervisorGroupPatch, HypervisorRow
from panel.services import catalog, hypervisors

admin = kit.Admin("hypervisor_group", __name__, description="Hypervisor groups")


@admin.get(
    "/hypervisor/groups",
    op="list",
    can="admin:hypervisors:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(HypervisorGroupOut),
)
def listing():
    """List hypervisor groups.

    Sorted by display name, with their hypervisors and plan groups. `search` matches both names.
    """
    return kit.paginate(hypervisors.select_groups())


@admin.post(
    "/hypervisor/groups", op="create", can="admin:hypervisors:write", body=HypervisorGroupIn, out=HypervisorGroupOut
)
def create(body):
    """Create a hypervisor group.

    Customers can select it as a location once it is enabled and has a hypervisor. Returns 422 under `name` if the name
    is already used.
    """
    kit.set_message("Hypervisor group created.")
    return hypervisors.create_group(**resolve_plan_groups(body))


@admin.get("/hypervisor/group/<group_id>", op="get", can="admin:hypervisors:read", out=HypervisorGroupOut)
def show(group_id):
    """Get a hypervisor group.

    Returns 404 if the group does not exist.
    """
    return hypervisors.get_group(group_id)


@admin.patch(
    "/hypervisor/group/<group_id>",
    op="update",
    can="admin:hypervisors:write",
    body=HypervisorGroupPatch,
    out=HypervisorGroupOut,
)
def update(body, group_id):
    """Update a hypervisor group.

    Only the fields you send are changed. A disabled group (`enabled: false`) accepts no new instances; existing ones
    keep running. Returns 422 under `name` if the name is already used.
    """
    kit.set_message("Hypervisor group updated.")
    return hypervisors.update_group(hypervisors.get_group(group_id), **resolve_plan_groups(body))


@admin.delete("/hypervisor/group/<group_id>", op="delete", can="admin:hypervisors:write")
def delete(group_id):
    """Delete a hypervisor group with its grants and settings.

    Returns 409 while hypervisors or subnets belong to it.
    """
    hypervisors.delete_group(hypervisors.get_group(group_id))
    kit.set_message("Hypervisor group deleted.")


@admin.get(
    "/hypervisor/group/<group_id>/hypervisors",
    op="hypervisors",
    can="admin:hypervisors:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(HypervisorRow),
)
def members(group_id):
    """List the hypervisors of a group.

    Sorted by name. Returns 404 if the group does not exist.
    """
    return kit.paginate(hypervisors.with_allocation(hypervisors.listing(group_id=hypervisors.get_group(group_id).id)))


def resolve_plan_groups(body):
    """Return the body with rows in place of ids."""
    if "plan_groups" not in body:
        return body
    return {**body, "plan_groups": catalog.get_plan_groups(body["plan_groups"])}
