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
    """List the volume plan groups: the classes of volumes.

    By position and name, with the locations that offer them.
    """
    return kit.paginate(volume_plans.select_groups(**query))


@admin.post(
    "/volume/plan-groups", op="plan_group_create", can=WRITE_PERMISSION, body=VolumePlanGroupIn, out=VolumePlanGroupOut
)
def create_group(body):
    """Add a volume plan group.

    It offers nothing until it has plans. 422 under `name` when the name is taken, and for an unknown location.
    """
    kit.set_message("The group is added.")
    return volume_plans.create_group(**body)


@admin.patch(
    "/volume/plan-group/<volume_plan_group_id>",
    op="plan_group_update",
    can=WRITE_PERMISSION,
    body=VolumePlanGroupPatch,
    out=VolumePlanGroupOut,
)
def update_group(body, volume_plan_group_id):
    """Change a volume plan group.

    Only what is sent changes; a list of locations replaces the earlier one. Existing volumes stay where they are.
    """
    kit.set_message("The group is changed.")
    return volume_plans.update_group(volume_plans.get_group(volume_plan_group_id), **body)


@admin.delete("/volume/plan-group/<volume_plan_group_id>", op="plan_group_delete", can=WRITE_PERMISSION)
def delete_group(volume_plan_group_id):
    """Remove a volume plan group.

    Refused while plans belong to it. That is a 409: remove or move the plans first.
    """
    volume_plans.delete_group(volume_plans.get_group(volume_plan_group_id))
    kit.set_message("The group is removed.")


@admin.get(
    "/volume/plans",
    op="plans",
    can=READ_PERMISSION,
    query=VolumePlanQuery,
    out=kit.build_admin_page_schema(VolumePlanOut),
)
def listing(query):
    """List the volume plans, in the order customers see them.

    Closed ones too.
    """
    return kit.paginate(volume_plans.listing(**query))


@admin.post("/volume/plans", op="plan_create", can=WRITE_PERMISSION, body=VolumePlanIn, out=VolumePlanOut)
def create(body):
    """Add a volume plan.

    422 under `name` when the group has a plan of that name, under the group's field for an unknown group.
    """
    kit.set_message("The plan is added.")
    return volume_plans.create(volume_plans.get_group(body.pop("volume_plan_group_id"), "volume_plan_group_id"), **body)


@admin.patch(
    "/volume/plan/<volume_plan_id>", op="plan_update", can=WRITE_PERMISSION, body=VolumePlanPatch, out=VolumePlanOut
)
def update(body, volume_plan_id):
    """Change a volume plan.

    Volumes keep the size they were made with. Only what is sent changes. What existing volumes cost stays as it was
    when they were made.
    """
    kit.set_message("The plan is changed.")
    return volume_plans.update(volume_plans.get(volume_plan_id), **body)


@admin.delete("/volume/plan/<volume_plan_id>", op="plan_delete", can=WRITE_PERMISSION)
def delete(volume_plan_id):
    """Remove a volume plan.

    Refused while volumes have it. That is a 409: close it instead, so that nobody can choose it.
    """
    volume_plans.delete(volume_plans.get(volume_plan_id))
    kit.set_message("The plan is removed.")
