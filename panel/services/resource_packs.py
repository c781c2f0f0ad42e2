"""Resource packs: their size, their usage, and which instances may be created from them.

An instance of a pack uses its processors, its memory and all its disks. Only the pack is charged, not the instance.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import joinedload, undefer_group

from panel.core.db import session, with_lock
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, HypervisorGroup, Instance, Plan, ResourcePack
from panel.services import billing_users, usage
from panel.services.access import Access
from panel.services.crud import get_or_404, update_fields

SIZE_COLUMNS = ("cpu_cores", "ram", "storage")
SHORTAGE_REASONS = {
    "cpu_cores": ("resources_not_sufficient", message("The resource pack does not have enough processors left.")),
    "ram": ("resources_not_sufficient", message("The resource pack does not have enough memory left.")),
    "storage": ("storage_not_sufficient", message("The resource pack does not have enough storage left.")),
}
"""Reason word and sentence, by the resource that is exhausted."""


def listing(account: Access | Account | None = None, *, user_id: str | None = None) -> Select[ResourcePack]:
    """Select packs, oldest first; with an account only its own."""
    query = select(ResourcePack).options(joinedload(ResourcePack.account), joinedload(ResourcePack.group))
    query = query.order_by(ResourcePack.id)
    if user_id:
        query = query.where(ResourcePack.account_id == user_id)
    return query.where(account.visible_rows(ResourcePack)) if account else query


def get(pack_id: str, account: Access | Account | None = None) -> ResourcePack:
    pack = session.scalar(listing(account).where(ResourcePack.id == pack_id))
    if pack is None:
        raise NotFound(message("No such resource pack."))
    return pack


def with_usage(query: Select[ResourcePack]) -> Select[ResourcePack]:
    """Load with each pack what its instances use."""
    return query.options(undefer_group("usage"))


def lock_packs(query: Select[ResourcePack]) -> Sequence[ResourcePack]:
    """Lock the packs, then read them with their usage, which may have changed until they were locked."""
    ids = session.scalars(with_lock(query.with_only_columns(ResourcePack.id))).all()
    locked = with_usage(select(ResourcePack).where(ResourcePack.id.in_(ids)).order_by(ResourcePack.id))
    return session.scalars(locked.execution_options(populate_existing=True)).all() if ids else []


def create(*, user_id: str, name: str, location_id: str | None = None, **values: Any) -> ResourcePack:
    owner, group = billing_users.get(user_id, "user_id"), find_location(location_id)
    pack = ResourcePack(account_id=owner.id, group_id=group and group.id, name=name, **values)
    session.add(pack)
    session.flush()
    usage.start_metering("resource_pack", pack, name=name, plan=name, price=pack.price, billing_mode="cloud_service")
    return pack


def find_location(location_id: str | None) -> HypervisorGroup | None:
    return (
        get_or_404(HypervisorGroup, location_id, message("No such location."), "location_id") if location_id else None
    )


def update(pack: ResourcePack, **changes: Any) -> ResourcePack:
    """Change the pack. Its size cannot become smaller than its usage."""
    for name in (*SIZE_COLUMNS, "instances"):
        used, requested = getattr(pack.used, name), changes.get(name)
        if requested is not None and requested < used and (name != "instances" or requested):
            raise Invalid(message("More than that is in use."), **{name: message("{used} are in use.", used=used)})
    if "location_id" in changes:
        group = find_location(changes.pop("location_id"))
        changes["group_id"] = group and group.id
    before = pack.price
    update_fields(pack, changes)
    if pack.price != before:
        usage.change_price(pack, plan=pack.name, price=pack.price)
    return pack


def delete(pack: ResourcePack) -> None:
    if session.scalar(select(Instance.id).where(Instance.pack_id == pack.id).limit(1)):
        raise Conflict(
            message("Instances were made from it. Destroy them first, or turn the pack off."), reason="pack_in_use"
        )
    usage.stop_metering(pack)
    session.delete(pack)
    session.flush()


def choose_pack(
    account: Access | Account, location_id: str, plan: Plan, pack_id: str | None = None
) -> ResourcePack | None:
    """Return the pack for a machine of the plan, or None for an account without packs.

    It is the named pack, else the first with room. The packs are locked, so that concurrent requests do not both use
    the rest.
    """
    query = select(ResourcePack).where(account.visible_rows(ResourcePack)).order_by(ResourcePack.id)
    query = query.where(ResourcePack.id == pack_id) if pack_id else query.where(ResourcePack.enabled)
    packs = lock_packs(query)
    if not packs and pack_id:
        raise Invalid(message("No such resource pack."), pack_id=message("No such resource pack."))
    first_error = None
    for pack in packs:
        error = pack_error(pack, location_id, plan)
        if error is None:
            return pack
        first_error = first_error or error
    if first_error:
        reason, sentence = first_error
        raise Invalid(sentence, reason=reason, pack_id=sentence)
    return None


def pack_error(pack: ResourcePack, location_id: str, plan: Plan) -> tuple[str, str] | None:
    """Return why no machine of the plan can be created from the pack there, as reason word and sentence, or None."""
    if not pack.enabled:
        return "pack_disabled", message("The resource pack is off.")
    if pack.group_id and pack.group_id != location_id:
        return "pack_elsewhere", message("The resource pack is for another location.")
    if pack.instances and pack.used.instances >= pack.instances:
        return "limit_reached", message("The resource pack is for {instances} instances.", instances=pack.instances)
    return capacity_error(pack, {name: getattr(plan, name) for name in SIZE_COLUMNS})


def capacity_error(pack: ResourcePack, additional: Mapping[str, int]) -> tuple[str, str] | None:
    """Return which resource would be exhausted, as reason word and sentence, or None.

    `additional` has the extra amounts. A resource that does not grow may exceed the pack's size.
    """
    free = {name: getattr(pack, name) - getattr(pack.used, name) for name in SIZE_COLUMNS}
    return next((SHORTAGE_REASONS[name] for name in SIZE_COLUMNS if additional.get(name, 0) > max(0, free[name])), None)


def ensure_capacity(instance: Instance, **additional: int) -> None:
    """Raise Invalid if the instance's pack lacks these additional amounts. Instances without a pack always pass."""
    if instance.pack_id is None:
        return
    [pack] = lock_packs(select(ResourcePack).where(ResourcePack.id == instance.pack_id))
    problem = capacity_error(pack, additional)
    if problem:
        raise Invalid(problem[1], reason=problem[0])
