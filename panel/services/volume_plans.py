"""Volume plans and their groups (classes), as operators keep them."""

from sqlalchemy import func, select
from sqlalchemy.orm import contains_eager

from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Volume, VolumePlan, VolumePlanGroup
from panel.services.crud import change, fetch, refuse_taken


def groups(search=None):
    query = select(VolumePlanGroup).order_by(VolumePlanGroup.position, VolumePlanGroup.name)
    return query.where(VolumePlanGroup.name.icontains(search, autoescape=True)) if search else query


def group(group_id, field=None):
    return fetch(VolumePlanGroup, group_id, "No such volume plan group.", field)


def create_group(*, name, display_name=None, **values):
    refuse_taken(VolumePlanGroup, name)
    made = VolumePlanGroup(name=name, display_name=display_name or name, **values)
    session.add(made)
    session.flush()
    return made


def update_group(found, **changes):
    if "name" in changes:
        refuse_taken(VolumePlanGroup, changes["name"], but=found)
    return change(found, changes)


def delete_group(found):
    if found.plans:
        raise Conflict("Plans belong to this group. Move or remove them first.")
    session.delete(found)
    session.flush()


def listing(search=None):
    query = select(VolumePlan).join(VolumePlanGroup)
    query = query.order_by(VolumePlanGroup.position, VolumePlan.position, VolumePlan.name)
    return query.where(VolumePlan.name.icontains(search, autoescape=True)) if search else query


def shown(search=None):
    """The same with their classes, for pages."""
    return listing(search).options(contains_eager(VolumePlan.group))


def users(plans):
    """How many volumes have each of these plans, by the plan's id."""
    counts = select(Volume.plan_id, func.count()).where(Volume.plan_id.in_([plan.id for plan in plans]))
    return dict(session.execute(counts.group_by(Volume.plan_id)).all())


def offered():
    """What customers may choose."""
    return listing().where(VolumePlan.enabled, VolumePlanGroup.enabled)


def get(plan_id, field=None):
    return fetch(VolumePlan, plan_id, "No such volume plan.", field)


def create(of, *, name, **values):
    refuse_taken(VolumePlan, name, volume_plan_group_id=of.id)
    made = VolumePlan(group=of, name=name, **values)
    session.add(made)
    session.flush()
    return made


def update(found, **changes):
    """Changes what new volumes get. Volumes keep the size that they were made with."""
    if "name" in changes:
        refuse_taken(VolumePlan, changes["name"], but=found, volume_plan_group_id=found.volume_plan_group_id)
    return change(found, changes)


def delete(found):
    if session.scalar(select(Volume.id).where(Volume.plan_id == found.id).limit(1)):
        raise Conflict("Volumes have this plan. Close it instead: then nobody can choose it.")
    session.delete(found)
    session.flush()
