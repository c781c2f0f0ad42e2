"""Changing the plan of an instance, in both dialects."""

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from panel.schemas.instances import PlanChange
from panel.services import instances

PLAN_CHANGED_MESSAGE = "Plan changed. Resize of the disk requested."


@user.post(
    "/instance/<instance_id>/change-plan",
    op="change_plan",
    can="instances.manage",
    body=PlanChange,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def change_plan(body, instance_id):
    """Change the plan of an instance.

    Only possible if the platform allows customers to change plans. The disk grows and the port speed changes
    immediately, while the guest is running. CPU cores and memory change at the next start (`pending_cpu_cores`,
    `pending_ram`). Returns 422 under `plan_id` for a plan that is not offered in the location or has less storage, and
    422 with the reason `resources_not_sufficient`, `storage_not_sufficient`, `plan_ipv4_unavailable`,
    `plan_ipv6_unavailable`, `plan_ipv6_subnet_unavailable` or `plan_private_ipv4_unavailable`. A refused request
    changes nothing.
    """
    task = instances.change_plan(get_own_instance(instance_id), actor=kit.get_current_actor(), **body)
    return {"message": PLAN_CHANGED_MESSAGE, "task_id": task.id}


@admin.post(
    "/instance/<instance_id>/change-plan",
    op="change_plan",
    can="admin:instances:write",
    body=PlanChange,
    out=kit.Schema.from_dict({"task_id": TASK_ID}, name="ChangingPlan"),
)
def admin_change_plan(body, instance_id):
    """Change the plan of an instance.

    The disk grows and the port speed changes immediately, while the guest is running. CPU cores and memory change at
    the next start (`pending_cpu_cores`, `pending_ram`). Returns 422 under `plan_id` for a plan that is not offered in
    the location or has less storage, and 422 with the reason `resources_not_sufficient`, `storage_not_sufficient`,
    `plan_ipv4_unavailable`, `plan_ipv6_unavailable`, `plan_ipv6_subnet_unavailable` or `plan_private_ipv4_unavailable`.
    A refused request changes nothing.
    """
    task = instances.change_plan(instances.get(instance_id), actor=kit.get_current_actor(), by_operator=True, **body)
    kit.set_message(PLAN_CHANGED_MESSAGE)
    return {"task_id": task.id}
