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
    """List the hypervisor groups.

    By display name, with their hypervisors and plan groups. `search` looks at both names.
    """
    return kit.paginate(hypervisors.select_groups())


@admin.post(
    "/hypervisor/groups", op="create", can="admin:hypervisors:write", body=HypervisorGroupIn, out=HypervisorGroupOut
)
def create(body):
    """Add a hypervisor group.

    It is a location that customers can choose once it is enabled and has a hypervisor. 422 under `name` when the name
    is taken.
    """
    kit.set_message("The group is added.")
    return hypervisors.create_group(**resolve_plan_groups(body))


@admin.get("/hypervisor/group/<group_id>", op="get", can="admin:hypervisors:read", out=HypervisorGroupOut)
def show(group_id):
    """Show a hypervisor group.

    404 when there is no such group.
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
    """Change a hypervisor group.

    Only what is sent changes. One that is closed (`enabled: false`) takes no new instances; existing ones go on. 422
    under `name` when the name is taken.
    """
    kit.set_message("The group is changed.")
    return hypervisors.update_group(hypervisors.get_group(group_id), **resolve_plan_groups(body))


@admin.delete("/hypervisor/group/<group_id>", op="delete", can="admin:hypervisors:write")
def delete(group_id):
    """Remove a hypervisor group.

    Refused while hypervisors or subnets belong to it. That is a 409. Grants and settings of the group go with it.
    """
    hypervisors.delete_group(hypervisors.get_group(group_id))
    kit.set_message("The group is removed.")


@admin.get(
    "/hypervisor/group/<group_id>/hypervisors",
    op="hypervisors",
    can="admin:hypervisors:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(HypervisorRow),
)
def members(group_id):
    """List the hypervisors of a group.

    By name.
    """
    return kit.paginate(hypervisors.with_allocation(hypervisors.listing(group_id=hypervisors.get_group(group_id).id)))


def resolve_plan_groups(body):
    """Return the body with rows in place of ids."""
    if "plan_groups" not in body:
        return body
    return {**body, "plan_groups": catalog.get_plan_groups(body["plan_groups"])}
