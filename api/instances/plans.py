"""Changing the plan of an instance, in both dialects."""

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from panel.schemas.instances import PlanChange
from panel.services import instances

PLAN_CHANGED_MESSAGE = "The plan is changed. The disk is being grown."


@user.post(
    "/instance/<instance_id>/change-plan",
    op="change_plan",
    can="instances.manage",
    body=PlanChange,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def change_plan(body, instance_id):
    """Move an instance to another plan, where the platform lets its customers.

    The disk grows and the speed changes at once, while the guest runs. Processors and memory follow at the next start
    (`pending_cpu_cores`, `pending_ram`). Refused with 422 under `plan_id`: a plan that is not offered here or has less
    storage; with a reason `resources_not_sufficient`, `storage_not_sufficient`, `plan_ipv4_unavailable`,
    `plan_ipv6_unavailable`, `plan_ipv6_subnet_unavailable` or `plan_private_ipv4_unavailable`. Nothing is taken or
    changed by a refused request.
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
    """Move an instance to another plan.

    The disk grows and the speed changes at once, while the guest runs. Processors and memory follow at the next start
    (`pending_cpu_cores`, `pending_ram`). Refused with 422 under `plan_id`: a plan that is not offered here or has less
    storage; with a reason `resources_not_sufficient`, `storage_not_sufficient`, `plan_ipv4_unavailable`,
    `plan_ipv6_unavailable`, `plan_ipv6_subnet_unavailable` or `plan_private_ipv4_unavailable`. Nothing is taken or
    changed by a refused request.
    """
    task = instances.change_plan(instances.get(instance_id), actor=kit.get_current_actor(), by_operator=True, **body)
    kit.set_message(PLAN_CHANGED_MESSAGE)
    return {"task_id": task.id}
