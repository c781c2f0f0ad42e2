"""Volume plans and their groups (classes), for operators."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import contains_eager

from panel.core.db import session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import Volume, VolumePlan, VolumePlanGroup
from panel.services.crud import ensure_unique_name, get_or_404, update_fields


def select_groups(search: str | None = None) -> Select[VolumePlanGroup]:
    query = select(VolumePlanGroup).order_by(VolumePlanGroup.position, VolumePlanGroup.name)
    return query.where(VolumePlanGroup.name.icontains(search, autoescape=True)) if search else query


def get_group(group_id: str, error_field: str | None = None) -> VolumePlanGroup:
    return get_or_404(VolumePlanGroup, group_id, message("No such volume plan group."), error_field)


def create_group(*, name: str, display_name: str | None = None, **values: Any) -> VolumePlanGroup:
    ensure_unique_name(VolumePlanGroup, name)
    group = VolumePlanGroup(name=name, display_name=display_name or name, **values)
    session.add(group)
    session.flush()
    return group


def update_group(group: VolumePlanGroup, **changes: Any) -> VolumePlanGroup:
    if "name" in changes:
        ensure_unique_name(VolumePlanGroup, changes["name"], exclude=group)
    return update_fields(group, changes)


def delete_group(group: VolumePlanGroup) -> None:
    if group.plans:
        raise Conflict(message("Plans belong to this group. Move or remove them first."))
    session.delete(group)
    session.flush()


def listing(search: str | None = None) -> Select[VolumePlan]:
    query = select(VolumePlan).join(VolumePlanGroup)
    query = query.order_by(VolumePlanGroup.position, VolumePlan.position, VolumePlan.name)
    return query.where(VolumePlan.name.icontains(search, autoescape=True)) if search else query


def select_with_groups(search: str | None = None) -> Select[VolumePlan]:
    """Select volume plans with their groups loaded, for pages."""
    return listing(search).options(contains_eager(VolumePlan.group))


def count_users(plans: Iterable[VolumePlan]) -> dict[str, int]:
    """Return how many volumes have each of these plans, by plan id."""
    counts = select(Volume.plan_id, func.count()).where(Volume.plan_id.in_([plan.id for plan in plans]))
    return dict(session.execute(counts.group_by(Volume.plan_id)).all())


def select_offered() -> Select[VolumePlan]:
    """Select the plans that customers may choose."""
    return listing().where(VolumePlan.enabled, VolumePlanGroup.enabled)


def get(plan_id: str, error_field: str | None = None) -> VolumePlan:
    return get_or_404(VolumePlan, plan_id, message("No such volume plan."), error_field)


def create(group: VolumePlanGroup, *, name: str, **values: Any) -> VolumePlan:
    ensure_unique_name(VolumePlan, name, volume_plan_group_id=group.id)
    plan = VolumePlan(group=group, name=name, **values)
    session.add(plan)
    session.flush()
    return plan


def update(plan: VolumePlan, **changes: Any) -> VolumePlan:
    """Change what new volumes get. Existing volumes keep their size."""
    if "name" in changes:
        ensure_unique_name(VolumePlan, changes["name"], exclude=plan, volume_plan_group_id=plan.volume_plan_group_id)
    return update_fields(plan, changes)


def delete(plan: VolumePlan) -> None:
    if session.scalar(select(Volume.id).where(Volume.plan_id == plan.id).limit(1)):
        raise Conflict(message("Volumes use this plan. Turn it off instead, so that it can no longer be selected."))
    session.delete(plan)
    session.flush()
