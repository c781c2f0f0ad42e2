"""Plans: sizes of instances and their prices."""

from api import kit
from panel.schemas.plans import AdminPlanOut, PlanIn, PlanPatch, PlanQuery
from panel.services import catalog

admin = kit.Admin("instance_plan", __name__, description="Plans")


@admin.get(
    "/instance/plans",
    op="list",
    can="admin:catalog:read",
    query=PlanQuery,
    out=kit.build_admin_page_schema(AdminPlanOut),
)
def listing(query):
    """List plans, in the order customers see them.

    Includes disabled plans. Contains the group of each plan.
    """
    return kit.paginate(catalog.list_all_plans(**query))


@admin.post("/instance/plans", op="create", can="admin:catalog:write", body=PlanIn, out=AdminPlanOut)
def create(body):
    """Create a plan.

    Customers can select it immediately in the locations of its group, unless it is created disabled. Returns 422 under
    `name` if the group already has a plan with that name, and under `plan_group_id` for an unknown group.
    """
    kit.set_message("Plan created.")
    return catalog.create_plan(catalog.get_plan_group(body.pop("plan_group_id"), "plan_group_id"), **body)


@admin.get("/instance/plan/<plan_id>", op="get", can="admin:catalog:read", out=AdminPlanOut)
def show(plan_id):
    """Get a plan.

    Returns 404 if the plan does not exist.
    """
    return catalog.get_plan(plan_id)


@admin.patch("/instance/plan/<plan_id>", op="update", can="admin:catalog:write", body=PlanPatch, out=AdminPlanOut)
def update(body, plan_id):
    """Update a plan.

    Only the fields you send are changed. Existing instances keep their size and the price they got with the plan.
    Returns 422 under `name` if the group already has a plan with that name.
    """
    kit.set_message("Plan updated. Existing instances are not affected.")
    return catalog.update_plan(catalog.get_plan(plan_id), **body)


@admin.delete("/instance/plan/<plan_id>", op="delete", can="admin:catalog:write")
def delete(plan_id):
    """Delete a plan.

    Returns 409 while instances use it: disable it instead.
    """
    catalog.delete_plan(catalog.get_plan(plan_id))
    kit.set_message("Plan deleted.")
