"""Plans: sizes of machines and their prices."""

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
    """List the plans, in the order customers see them.

    Switched-off ones too, with their groups.
    """
    return kit.paginate(catalog.list_all_plans(**query))


@admin.post("/instance/plans", op="create", can="admin:catalog:write", body=PlanIn, out=AdminPlanOut)
def create(body):
    """Add a plan.

    Customers can choose it at once in the locations of its group, unless it is made switched off. 422 under `name` when
    the group has a plan of that name, under `plan_group_id` for an unknown group.
    """
    kit.set_message("The plan is added.")
    return catalog.create_plan(catalog.get_plan_group(body.pop("plan_group_id"), "plan_group_id"), **body)


@admin.get("/instance/plan/<plan_id>", op="get", can="admin:catalog:read", out=AdminPlanOut)
def show(plan_id):
    """Show a plan.

    404 when there is no such plan.
    """
    return catalog.get_plan(plan_id)


@admin.patch("/instance/plan/<plan_id>", op="update", can="admin:catalog:write", body=PlanPatch, out=AdminPlanOut)
def update(body, plan_id):
    """Change a plan.

    Only what is sent changes; machines keep the size they were made with. What existing instances cost stays as it was
    when they got the plan. 422 under `name` when the group has a plan of that name.
    """
    kit.set_message("The plan is changed.")
    return catalog.update_plan(catalog.get_plan(plan_id), **body)


@admin.delete("/instance/plan/<plan_id>", op="delete", can="admin:catalog:write")
def delete(plan_id):
    """Remove a plan.

    Refused while instances have it. That is a 409: switch it off instead.
    """
    catalog.delete_plan(catalog.get_plan(plan_id))
    kit.set_message("The plan is removed.")
