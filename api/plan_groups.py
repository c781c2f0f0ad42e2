"""Plan groups: plans of one kind, offered in selected locations."""

from api import kit
from panel.schemas.plans import AdminPlanGroupOut, AdminPlanOut, PlanGroupIn, PlanGroupPatch
from panel.services import catalog, hypervisors

admin = kit.Admin("cs_plan_group", __name__, description="Plan groups")


@admin.get(
    "/cloud-service/plan-groups",
    op="list",
    can="admin:catalog:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AdminPlanGroupOut),
)
def listing():
    """List plan groups, in the order customers see them.

    Includes disabled groups. Contains the locations that offer each group.
    """
    return kit.paginate(catalog.list_all_plan_groups())


@admin.post(
    "/cloud-service/plan-groups", op="create", can="admin:catalog:write", body=PlanGroupIn, out=AdminPlanGroupOut
)
def create(body):
    """Create a plan group.

    It offers nothing until it has plans and locations. Returns 422 under `name` if the name is already used, and under
    `hypervisor_groups` for an unknown location.
    """
    kit.set_message("Plan group created.")
    return catalog.create_plan_group(**resolve_groups(body))


@admin.get("/cloud-service/plan-group/<plan_group_id>", op="get", can="admin:catalog:read", out=AdminPlanGroupOut)
def show(plan_group_id):
    """Get a plan group.

    Returns 404 if the plan group does not exist.
    """
    return catalog.get_plan_group(plan_group_id)


@admin.patch(
    "/cloud-service/plan-group/<plan_group_id>",
    op="update",
    can="admin:catalog:write",
    body=PlanGroupPatch,
    out=AdminPlanGroupOut,
)
def update(body, plan_group_id):
    """Update a plan group.

    Only the fields you send are changed. `hypervisor_groups` replaces the locations. Existing instances keep their
    location and plan. Returns 422 under `name` if the name is already used.
    """
    kit.set_message("Plan group updated.")
    return catalog.update_plan_group(catalog.get_plan_group(plan_group_id), **resolve_groups(body))


@admin.delete("/cloud-service/plan-group/<plan_group_id>", op="delete", can="admin:catalog:write")
def delete(plan_group_id):
    """Delete a plan group.

    Returns 409 while plans belong to it: delete the plans first, or disable the group.
    """
    catalog.delete_plan_group(catalog.get_plan_group(plan_group_id))
    kit.set_message("Plan group deleted.")


@admin.get(
    "/cloud-service/plan-group/<plan_group_id>/plans",
    op="plans",
    can="admin:catalog:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AdminPlanOut),
)
def plans(plan_group_id):
    """List the plans of a plan group.

    In the order customers see them, including disabled plans.
    """
    query = catalog.list_all_plans(plan_group_id=catalog.get_plan_group(plan_group_id).id)
    return kit.paginate(query)


def resolve_groups(body):
    """Return the body with rows in place of ids."""
    if "hypervisor_groups" not in body:
        return body
    return {**body, "hypervisor_groups": hypervisors.get_groups(body["hypervisor_groups"])}
