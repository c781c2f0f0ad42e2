"""What a customer may choose from: locations, plans, images."""

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import selectinload

from panel.db import session
from panel.errors import Invalid, NotFound
from panel.models import Hypervisor, HypervisorGroup, Image, Plan, PlanGroup
from panel.models.hypervisors import group_plan_groups


def locations():
    """Every open location, with whether a machine can be placed there now."""
    return (
        select(HypervisorGroup)
        .where(HypervisorGroup.enabled)
        .options(selectinload(HypervisorGroup.hypervisors))
        .order_by(HypervisorGroup.display_name, HypervisorGroup.id)
    )


def location(location_id):
    found = session.get(HypervisorGroup, location_id)
    if found is None or not found.enabled:
        raise NotFound("No such location.")
    return found


def plan_groups(group=None):
    """Open plan groups, of one location if it is given."""
    query = select(PlanGroup).where(PlanGroup.enabled).order_by(PlanGroup.position, PlanGroup.name)
    if group:
        query = query.join(group_plan_groups).where(group_plan_groups.c.group_id == group.id)
    return query


def plans(group, plan_group_id=None):
    """Plans that can be bought in a location."""
    query = (
        select(Plan)
        .join(PlanGroup)
        .join(group_plan_groups, group_plan_groups.c.plan_group_id == PlanGroup.id)
        .where(group_plan_groups.c.group_id == group.id, PlanGroup.enabled, Plan.enabled)
        .order_by(PlanGroup.position, Plan.position, Plan.name)
    )
    return query.where(Plan.plan_group_id == plan_group_id) if plan_group_id else query


def plan(group, plan_id, field="plan_id"):
    found = session.scalar(plans(group).where(Plan.id == plan_id))
    if found is None:
        raise Invalid("The plan cannot be chosen here.", **{field: "No such plan is offered in this location."})
    return found


def every_plan_group():
    return select(PlanGroup).options(selectinload(PlanGroup.groups)).order_by(PlanGroup.position, PlanGroup.name)


def every_plan():
    return (
        select(Plan)
        .options(selectinload(Plan.group))
        .join(PlanGroup)
        .order_by(PlanGroup.position, Plan.position, Plan.name)
    )


def get_plan(plan_id):
    found = session.get(Plan, plan_id)
    if found is None:
        raise NotFound("No such plan.")
    return found


def get_plan_group(plan_group_id, field=None):
    found = session.get(PlanGroup, plan_group_id)
    if found is None and field:
        raise Invalid("The plan group does not exist.", **{field: "No such plan group."})
    if found is None:
        raise NotFound("No such plan group.")
    return found


def create_plan_group(*, name, display_name=None, hypervisor_groups=(), **values):
    if session.scalar(select(PlanGroup.id).where(PlanGroup.name == name)):
        raise Invalid("There is a plan group of this name.", name="This name is taken.")
    made = PlanGroup(name=name, display_name=display_name or name, groups=list(hypervisor_groups), **values)
    session.add(made)
    session.flush()
    return made


def create_plan(group, *, name, **values):
    if session.scalar(select(Plan.id).where(Plan.plan_group_id == group.id, Plan.name == name)):
        raise Invalid("The group has a plan of this name.", name="This name is taken.")
    made = Plan(group=group, name=name, **values)
    session.add(made)
    session.flush()
    return made


def update(found, **changes):
    """Changes a plan or plan group. Machines keep the size that they were made with."""
    for field, value in changes.items():
        setattr(found, field, value)
    session.flush()
    return found


def images(account=None, *, search=None, purpose=None):
    """The catalog as this customer sees it; every image for an operator (no account)."""
    query = select(Image).options(selectinload(Image.copies)).order_by(Image.distro, Image.name)
    if account:
        query = query.where(
            Image.enabled,
            or_(
                and_(Image.public, Image.purpose == "general"),
                and_(Image.purpose == "user", Image.account_id == account.id),
            ),
        )
    if search:
        query = query.where(
            or_(*(c.icontains(search, autoescape=True) for c in (Image.label, Image.name, Image.distro)))
        )
    if purpose:
        query = query.where(Image.purpose == purpose)
    return query


def image(image_id, account=None, field="image_id"):
    found = session.scalar(images(account).where(Image.id == image_id))
    if found is None:
        raise Invalid("The image cannot be chosen.", **{field: "No such image."})
    return found


def get_image(image_id):
    found = session.get(Image, image_id)
    if found is None:
        raise NotFound("No such image.")
    return found


def register_image(*, name, **facts):
    """Puts an image into the catalog, or replaces the facts of the one with this name."""
    found = session.scalar(select(Image).where(Image.name == name)) or Image(name=name)
    if found.sha256 and found.sha256 != facts["sha256"]:
        found.copies.clear()  # the nodes hold the bytes of the earlier file
    for field, value in facts.items():
        setattr(found, field, value)
    session.add(found)
    session.flush()
    return found


def open_nodes(group):
    """Hypervisors of a location on which a new machine may be placed."""
    return (
        select(Hypervisor)
        .where(
            Hypervisor.group_id == group.id,
            Hypervisor.status == "up",
            Hypervisor.deploy_enabled,
            ~Hypervisor.locked,
            ~Hypervisor.maintenance,
        )
        .options(selectinload(Hypervisor.storages))
        .order_by(Hypervisor.id)
    )
