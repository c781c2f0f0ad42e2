"""Instances that a billing system sells and charges itself; the panel does not bill them."""

from flask import url_for

from api import kit
from api.instances.actions import POWER_SUMMARIES, TASK_ID
from api.instances.suspension import OPTIONAL_TASK
from panel.auth import permissions
from panel.schemas.billing import OrderIn, OrderOut, RentedInstanceOut, SsoIn, SsoOut, TerminateIn
from panel.schemas.instances import PlanChange
from panel.services import billing_users, instances, sso

billing = kit.Billing("instance", __name__, description="Instances of the billing system")
BILLING_PERMISSION = permissions.BILLING
DEPLOY_FIELDS = ("image_id", "password", "cloudcfg", "timezone", "key_ids", "key_field", "user_scripts")


@billing.post("/instances", op="create", can=BILLING_PERMISSION, body=OrderIn, out=OrderOut)
def create(body):
    """Create an instance for a user and, if an image is given, deploy it.

    Insufficient capacity returns 422 with a reason: `storage_not_sufficient`, `resources_not_sufficient`,
    `ipv4_not_available`, `ipv6_not_available`, `ipv6_subnet_not_available`, `private_ipv4_not_available`,
    `hypervisor_not_available`. A refused request creates nothing.
    """
    owner = billing_users.get(body.pop("user_id"), "user_id")
    system = {name: body.pop(name) for name in DEPLOY_FIELDS if name in body}
    instance = instances.create(owner, actor=kit.get_current_actor(), billing_mode="external", **body)
    answer = {"instance_id": instance.id, "task_id": None, "password": None}
    if system["image_id"] is None:
        kit.set_message("Instance created. Deploy an image to it next.")
        return answer
    task, password = instances.deploy(instance, account=owner, actor=kit.get_current_actor(), **system)
    kit.set_message("Instance created. Deployment requested.")
    return {**answer, "task_id": task.id, "password": password}


@billing.get("/instance/<instance_id>", op="get", can=BILLING_PERMISSION, out=RentedInstanceOut)
def show(instance_id):
    """Get an instance.

    Returns 404 once it is destroyed.
    """
    return instances.get(instance_id)


def add_power_route(action, summary):
    def act(instance_id):
        task = instances.run_power_action(
            instances.get(instance_id), action, actor=kit.get_current_actor(), by_operator=True
        )
        kit.set_message(instances.ACTIONS[action].result_message(task))
        return {"task_id": task and task.id}

    act.__doc__ = summary
    billing.post(f"/instance/<instance_id>/power/{action}", op=action, can=BILLING_PERMISSION, out=OPTIONAL_TASK)(act)


for action, summary in POWER_SUMMARIES.items():
    add_power_route(action, summary)


@billing.post(
    "/instance/<instance_id>/change-plan",
    op="change_plan",
    can=BILLING_PERMISSION,
    body=PlanChange,
    out=kit.Schema.from_dict({"task_id": TASK_ID}, name="ChangingSoldPlan"),
)
def change_plan(body, instance_id):
    """Change the plan of an instance, up or down.

    The disk grows immediately and never shrinks, and the port speed changes immediately; CPU cores and memory change at
    the next start. Returns 422 under `plan_id` for a plan that is not offered in the location or has less storage, and
    422 with the reason `resources_not_sufficient`, `storage_not_sufficient`, `plan_ipv4_unavailable` or
    `plan_ipv6_unavailable`. A refused request changes nothing.
    """
    task = instances.change_plan(instances.get(instance_id), actor=kit.get_current_actor(), by_operator=True, **body)
    kit.set_message("Plan changed. Resize of the disk requested.")
    return {"task_id": task.id}


@billing.post("/instance/<instance_id>/suspend", op="suspend", can=BILLING_PERMISSION, out=OPTIONAL_TASK)
def suspend(instance_id):
    """Suspend an instance with the reason `admin`.

    It is asked to shut down, and powered off if it has not done so after two minutes. Its owner cannot start it.
    """
    task = instances.suspend(instances.get(instance_id), reason="admin", actor=kit.get_current_actor())
    kit.set_message(instances.ACTIONS["suspend"].result_message(task))
    return {"task_id": task and task.id}


@billing.post("/instance/<instance_id>/unsuspend", op="unsuspend", can=BILLING_PERMISSION, out=OPTIONAL_TASK)
def unsuspend(instance_id):
    """End the suspension of an instance.

    An instance that was running is started again. Also ends a suspension by an operator. Does nothing, without a task,
    if the instance is not suspended.
    """
    task = instances.unsuspend(instances.get(instance_id), actor=kit.get_current_actor())
    kit.set_message(instances.ACTIONS["unsuspend"].result_message(task))
    return {"task_id": task and task.id}


@billing.post(
    "/instance/<instance_id>/terminate",
    op="terminate",
    can=BILLING_PERMISSION,
    body=TerminateIn,
    out=kit.Schema.from_dict({"task_id": TASK_ID}, name="Terminating"),
)
def terminate(body, instance_id):
    """Destroy an instance with its disks.

    Returns 409 `protection_enabled` while delete protection is on: an operator must turn it off first. `delete_backups`
    only has an effect on instances that have backups.
    """
    task = instances.destroy(instances.get(instance_id), actor=kit.get_current_actor(), by_operator=True, **body)
    kit.set_message(instances.ACTIONS["destroy"].done_message)
    return {"task_id": task.id}


@billing.post("/instance/<instance_id>/sso", op="sso", can=BILLING_PERMISSION, body=SsoIn, out=SsoOut)
def sign_in_link(body, instance_id):
    """Create a link that signs the owner in and opens the instance's page.

    It works once. If the owner has a second factor, it is required as usual.
    """
    instance = instances.get(instance_id)
    kit.set_message("Sign-in link created.")
    page_url = url_for("instances.show", instance_id=instance.id)
    return sso.create_link(billing_users.get(instance.account_id), redirect_to=page_url, **body)
