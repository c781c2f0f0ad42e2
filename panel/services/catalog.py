"""What a customer may choose from: locations, plans, images."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from babel.numbers import get_currency_name, get_currency_symbol
from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy.orm import selectinload

from panel.core import context
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, Hypervisor, HypervisorGroup, Image, ImageCopy, Instance, Plan, PlanGroup, Storage
from panel.models.hypervisors import group_plan_groups
from panel.services import group_grants
from panel.services.access import Access
from panel.services.crud import ensure_unique_name, get_all_or_422, get_or_404, update_fields
from panel.services.search_kinds import contains_text, platform_search


def select_locations(account: Access | Account | None = None) -> Select[HypervisorGroup]:
    """Select the enabled locations, with their hypervisors; with an account, those that it may choose."""
    return (
        select(HypervisorGroup)
        .where(HypervisorGroup.enabled, group_grants.choosable_condition(account))
        .options(selectinload(HypervisorGroup.hypervisors))
        .order_by(HypervisorGroup.display_name, HypervisorGroup.id)
    )


def get_location(location_id: str, account: Access | Account, error_field: str | None = None) -> HypervisorGroup:
    """Return a location that the account may choose. For any other raise Invalid for `field` when the id came from a
    body, else NotFound: hidden ones cannot be told from unknown ones."""
    location = session.get(HypervisorGroup, location_id)
    if location is None or not location.enabled or not group_grants.can_choose(location, account):
        if error_field:
            raise Invalid(
                message("The location cannot be chosen."), **{error_field: message("No such location is open.")}
            )
        raise NotFound(message("No such location."))
    return location


def select_plan_groups(group: HypervisorGroup | None = None) -> Select[PlanGroup]:
    """Select the enabled plan groups, with a group only those of that location."""
    query = select(PlanGroup).where(PlanGroup.enabled).order_by(PlanGroup.position, PlanGroup.name)
    if group:
        query = query.join(group_plan_groups).where(group_plan_groups.c.group_id == group.id)
    return query


def select_plans(group: HypervisorGroup, plan_group_id: str | None = None) -> Select[Plan]:
    """Select the plans that can be ordered in a location."""
    query = (
        select(Plan)
        .join(PlanGroup)
        .join(group_plan_groups, group_plan_groups.c.plan_group_id == PlanGroup.id)
        .where(group_plan_groups.c.group_id == group.id, PlanGroup.enabled, Plan.enabled)
        .order_by(PlanGroup.position, Plan.position, Plan.name)
    )
    return query.where(Plan.plan_group_id == plan_group_id) if plan_group_id else query


def list_plans_by_location(groups: Iterable[HypervisorGroup]) -> dict[str, list[Plan]]:
    """Return the plans that can be ordered in each of these locations, by the location's id."""
    plans_by_location: dict[str, list[Plan]] = {group.id: [] for group in groups}
    query = (
        select(group_plan_groups.c.group_id, Plan)
        .join(PlanGroup, PlanGroup.id == group_plan_groups.c.plan_group_id)
        .join(Plan, Plan.plan_group_id == PlanGroup.id)
        .where(group_plan_groups.c.group_id.in_(plans_by_location), PlanGroup.enabled, Plan.enabled)
    )
    for group_id, plan in session.execute(query):
        plans_by_location[group_id].append(plan)
    return plans_by_location


def get_offered_plan(group: HypervisorGroup, plan_id: str, error_field: str = "plan_id") -> Plan:
    plan = session.scalar(select_plans(group).where(Plan.id == plan_id))
    if plan is None:
        raise Invalid(
            message("The plan cannot be chosen here."),
            **{error_field: message("No such plan is offered in this location.")},
        )
    return plan


def list_all_plan_groups(search: str | None = None, *, group: HypervisorGroup | None = None) -> Select[PlanGroup]:
    query = select(PlanGroup).options(selectinload(PlanGroup.groups)).order_by(PlanGroup.position, PlanGroup.name)
    if group:
        query = query.where(PlanGroup.groups.any(HypervisorGroup.id == group.id))
    return query.where(PlanGroup.name.icontains(search, autoescape=True)) if search else query


def list_all_plans(search: str | None = None, *, plan_group_id: str | None = None) -> Select[Plan]:
    query = (
        select(Plan)
        .options(selectinload(Plan.group))
        .join(PlanGroup)
        .order_by(PlanGroup.position, PlanGroup.name, Plan.position, Plan.name)
    )
    if search:
        query = query.where(Plan.name.icontains(search, autoescape=True))
    return query.where(Plan.plan_group_id == plan_group_id) if plan_group_id else query


def select_sold_plans() -> Select[Plan]:
    """Select the plans that can be ordered in at least one enabled location."""
    is_offered = PlanGroup.groups.any(HypervisorGroup.enabled)
    return list_all_plans().where(Plan.enabled, PlanGroup.enabled, is_offered)


def select_plan_group_names() -> Select[str, str]:
    """Select the id and name of each plan group, for a choice field."""
    return select(PlanGroup.id, PlanGroup.display_name).order_by(PlanGroup.position, PlanGroup.name)


def get_plan(plan_id: str) -> Plan:
    return get_or_404(Plan, plan_id, message("No such plan."))


def get_plan_group(plan_group_id: str, error_field: str | None = None) -> PlanGroup:
    return get_or_404(PlanGroup, plan_group_id, message("No such plan group."), error_field)


def get_plan_groups(ids: Collection[str], error_field: str = "plan_groups") -> list[PlanGroup]:
    """Return the plan groups with these ids, which come from the body's `field`."""
    return get_all_or_422(PlanGroup, ids, message("No such plan group."), error_field)


def create_plan_group(
    *,
    name: str,
    display_name: str | None = None,
    hypervisor_groups: Iterable[HypervisorGroup] = (),
    **values: Any,
) -> PlanGroup:
    ensure_unique_name(PlanGroup, name)
    plan_group = PlanGroup(name=name, display_name=display_name or name, groups=list(hypervisor_groups), **values)
    session.add(plan_group)
    session.flush()
    return plan_group


def update_plan_group(plan_group: PlanGroup, **changes: Any) -> PlanGroup:
    if "name" in changes:
        ensure_unique_name(PlanGroup, changes["name"], exclude=plan_group)
    if "hypervisor_groups" in changes:
        changes["groups"] = changes.pop("hypervisor_groups")
    return update_fields(plan_group, changes)


def delete_plan_group(plan_group: PlanGroup) -> None:
    if plan_group.plans:
        raise Conflict(message("Plans belong to this group. Remove them first, or turn the group off."))
    session.delete(plan_group)
    session.flush()


def create_plan(group: PlanGroup, *, name: str, **values: Any) -> Plan:
    ensure_unique_name(Plan, name, plan_group_id=group.id)
    plan = Plan(group=group, name=name, **values)
    session.add(plan)
    session.flush()
    return plan


def update_plan(plan: Plan, **changes: Any) -> Plan:
    """Change the plan for new instances. Existing instances keep the size that they were created with."""
    group = get_plan_group(changes.pop("plan_group_id", plan.plan_group_id), "plan_group_id")
    ensure_unique_name(Plan, changes.get("name", plan.name), exclude=plan, plan_group_id=group.id)
    return update_fields(plan, {**changes, "group": group})


def count_plan_users(plans: Iterable[Plan]) -> dict[str, int]:
    """Return how many instances have each plan, by plan id."""
    counts = select(Instance.plan_id, func.count()).where(Instance.plan_id.in_([plan.id for plan in plans]))
    return dict(session.execute(counts.group_by(Instance.plan_id)).all())


def delete_plan(plan: Plan) -> None:
    if session.scalar(select(Instance.id).where(Instance.plan_id == plan.id).limit(1)):
        raise Conflict(message("Instances use this plan. Turn it off instead, so that it can no longer be selected."))
    session.delete(plan)
    session.flush()


def select_images(
    account: Access | Account | None = None, *, search: str | None = None, purpose: str | None = None
) -> Select[Image]:
    """Select the images that this customer may install; without an account, every image, for operators."""
    query = (
        select(Image)
        .options(selectinload(Image.copies), selectinload(Image.downloads))
        .order_by(Image.distro, Image.name)
    )
    if account:
        query = query.where(
            Image.enabled,
            Image.status == "available",
            or_(
                and_(Image.public, Image.purpose == "general"),
                and_(Image.purpose == "user", account.visible_rows(Image)),
            ),
        )
    if search:
        query = query.where(
            or_(*(c.icontains(search, autoescape=True) for c in (Image.label, Image.name, Image.distro)))
        )
    if purpose:
        query = query.where(Image.purpose == purpose)
    return query


def select_public_images() -> Select[Image]:
    """Select the images that every customer may install."""
    return select_images(purpose="general").where(Image.enabled, Image.public)


def get_available_image(image_id: str, account: Access | Account | None = None, error_field: str = "image_id") -> Image:
    image = session.scalar(select_images(account).where(Image.id == image_id, Image.status == "available"))
    if image is None:
        raise Invalid(message("The image cannot be chosen."), **{error_field: message("No such image.")})
    return image


def get_image(image_id: str) -> Image:
    return get_or_404(Image, image_id, message("No such image."))


def update_image(image: Image, **changes: Any) -> Image:
    ensure_purpose_allowed(image, changes.get("purpose", image.purpose))
    return update_fields(image, changes)


def ensure_purpose_allowed(image: Image, purpose: str) -> None:
    """Raise unless the purpose fits: `user` for images that customers captured, another one for all others. An image
    whose purpose is wrong may be set right."""
    if purpose == image.purpose:
        return
    if image.account_id and purpose != "user":
        raise Invalid(
            message("The purpose of a captured image cannot change."),
            purpose=message("Stays `user` for a captured image."),
        )
    if image.account_id is None and purpose == "user":
        sentence = message("Only images that customers captured are `user`.")
        raise Invalid(sentence, purpose=sentence)


def list_image_holders(image: Image) -> Sequence[Hypervisor]:
    """Return the hypervisors that have a copy of the image, by name."""
    storage_ids = select(ImageCopy.storage_id).where(ImageCopy.image_id == image.id)
    query = select(Hypervisor).where(Hypervisor.storages.any(Storage.id.in_(storage_ids)))
    return session.scalars(query.order_by(Hypervisor.name)).all()


def register_image(*, name: str, **facts: Any) -> Image:
    """Add an image to the catalog, or update the one with this name."""
    image = session.scalar(select(Image).where(Image.name == name, Image.account_id.is_(None))) or Image(name=name)
    if image.sha256 and image.sha256 != facts["sha256"]:
        image.copies.clear()  # the nodes have copies of the earlier file
    for field, value in facts.items():
        setattr(image, field, value)
    session.add(image)
    session.flush()
    return image


@platform_search("plan", permission="admin:catalog:read", position=80)
def select_plans_by_name(text: str) -> Select[str, str, str]:
    query = select(Plan.id, Plan.name, PlanGroup.display_name).join(PlanGroup, PlanGroup.id == Plan.plan_group_id)
    return query.where(or_(contains_text(Plan.name, text), Plan.id == text.lower())).order_by(Plan.name)


def get_currency() -> dict[str, Any]:
    """Return the currency of all prices, which the installation's configuration determines."""
    code = context.current().config.currency
    name, symbol = get_currency_name(code, locale="en"), get_currency_symbol(code, locale="en")
    return {"id": code, "code": code, "name": name, "symbol": symbol, "is_default": True}
