"""Volume plans and their groups, for operators."""

from api import kit
from api.volumes import admin
from panel.schemas.volumes import (
    VolumePlanGroupIn,
    VolumePlanGroupOut,
    VolumePlanGroupPatch,
    VolumePlanIn,
    VolumePlanOut,
    VolumePlanPatch,
    VolumePlanQuery,
)
from panel.services import volume_plans

READ_PERMISSION, WRITE_PERMISSION = "admin:catalog:read", "admin:catalog:write"


@admin.get(
    "/volume/plan-groups",
    op="plan_groups",
    can=READ_PERMISSION,
    query=VolumePlanQuery,
    out=kit.build_admin_page_schema(VolumePlanGroupOut),
)
def groups(query):
    """List volume plan groups (classes of volumes).

    Sorted by position and name, with the locations that offer them.
    """
    return kit.paginate(volume_plans.select_groups(**query))


@admin.post(
    "/volume/plan-groups", op="plan_group_create", can=WRITE_PERMISSION, body=VolumePlanGroupIn, out=VolumePlanGroupOut
)
def create_group(body):
    """Create a volume plan group.

    It offers nothing until it has plans. Returns 422 under `name` if the name is already used, and for an unknown
    location.
    """
    kit.set_message("Volume plan group created.")
    return volume_plans.create_group(**body)


@admin.patch(
    "/volume/plan-group/<volume_plan_group_id>",
    op="plan_group_update",
    can=WRITE_PERMISSION,
    body=VolumePlanGroupPatch,
    out=VolumePlanGroupOut,
)
def update_group(body, volume_plan_group_id):
    """Update a volume plan group.

    Only the fields you send are changed; a list of locations replaces the current one. Existing volumes keep their
    location.
    """
    kit.set_message("Volume plan group updated.")
    return volume_plans.update_group(volume_plans.get_group(volume_plan_group_id), **body)


@admin.delete("/volume/plan-group/<volume_plan_group_id>", op="plan_group_delete", can=WRITE_PERMISSION)
def delete_group(volume_plan_group_id):
    """Delete a volume plan group.

    Returns 409 while plans belong to it: delete or move the plans first.
    """
    volume_plans.delete_group(volume_plans.get_group(volume_plan_group_id))
    kit.set_message("Volume plan group deleted.")


@admin.get(
    "/volume/plans",
    op="plans",
    can=READ_PERMISSION,
    query=VolumePlanQuery,
    out=kit.build_admin_page_schema(VolumePlanOut),
)
def listing(query):
    """List volume plans, in the order customers see them.

    Includes disabled plans.
    """
    return kit.paginate(volume_plans.listing(**query))


@admin.post("/volume/plans", op="plan_create", can=WRITE_PERMISSION, body=VolumePlanIn, out=VolumePlanOut)
def create(body):
    """Create a volume plan.

    Returns 422 under `name` if the group already has a plan with that name, and under `volume_plan_group_id` for an
    unknown group.
    """
    kit.set_message("Volume plan created.")
    return volume_plans.create(volume_plans.get_group(body.pop("volume_plan_group_id"), "volume_plan_group_id"), **body)


@admin.patch(
    "/volume/plan/<volume_plan_id>", op="plan_update", can=WRITE_PERMISSION, body=VolumePlanPatch, out=VolumePlanOut
)
def update(body, volume_plan_id):
    """Update a volume plan.

    Only the fields you send are changed. Existing volumes keep their size and price.
    """
    kit.set_message("Volume plan updated. Existing volumes are not affected.")
    return volume_plans.update(volume_plans.get(volume_plan_id), **body)


@admin.delete("/volume/plan/<volume_plan_id>", op="plan_delete", can=WRITE_PERMISSION)
def delete(volume_plan_id):
    """Delete a volume plan.

    Returns 409 while volumes use it: disable it instead.
    """
    volume_plans.delete(volume_plans.get(volume_plan_id))
    kit.set_message("Volume plan deleted.")
