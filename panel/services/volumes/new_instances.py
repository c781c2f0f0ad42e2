"""Volumes that a new instance has from its first start.

They are attached in the same transaction that creates the instance, before its deploy is requested. The deploy creates
the disks of those that were never used.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import select

from panel.core.db import session, with_lock
from panel.core.errors import Invalid
from panel.core.messages import Message, message
from panel.models import Account, Hypervisor, HypervisorGroup, Instance, Volume
from panel.services import disks, placement
from panel.services.access import Access
from panel.services.volumes import actions
from panel.services.volumes.read import listing


def choice_error(volume: Volume, group: HypervisorGroup | None) -> Message | None:
    """Return why the volume cannot be attached to a new instance in this location, or None."""
    if volume.instance:
        return message("Attached to {instance}.", instance=volume.instance.display_name)
    if volume.status != "available":
        return message("The volume cannot be attached: it is {status}.", status=volume.status)
    if volume.pending:
        return message("Another task of the volume is in progress. Try again when it has finished.")
    if group and volume.group_id != group.id:
        return message("In another location: {location}.", location=volume.group.display_name)
    return None


def lock_chosen(ids: Collection[str], group: HypervisorGroup, account: Access | Account) -> Sequence[Volume]:
    """Lock and return the account's volumes with these ids. Raise Invalid unless all can be attached."""
    if len(set(ids)) >= disks.MAX_DISKS_PER_INSTANCE:
        raise make_error(message("An instance has at most {maximum} disks.", maximum=disks.MAX_DISKS_PER_INSTANCE))
    session.scalars(with_lock(select(Volume).where(Volume.id.in_(ids)).order_by(Volume.id), of=Volume)).all()
    volumes = session.scalars(listing(account).where(Volume.id.in_(ids))).unique().all()
    if len(volumes) < len(set(ids)):
        raise make_error(message("No such volume."))
    for volume in volumes:
        if error := choice_error(volume, group):
            raise make_error(error)
    return volumes


def choose_host(volumes: Collection[Volume]) -> Hypervisor | None:
    """Return the hypervisor that has the data of these volumes, so that the instance must be there; None when any will
    do."""
    hosts = {volume.storage.hypervisor for volume in volumes if volume.ever_attached or volume.snapshots}
    if len(hosts) > 1:
        raise make_error(
            message("These volumes are on different hypervisors, so one instance cannot use them together.")
        )
    return next(iter(hosts), None)


def attach(volume: Volume, instance: Instance, *, actor: str) -> None:
    """Attach a volume of `lock_chosen` to an instance that is not deployed yet."""
    if volume.storage.hypervisor_id != instance.hypervisor_id:
        actions.recreate_at_instance(volume, instance, actor)
    volume.instance, volume.status, volume.error = instance, "attached", None
    session.flush()


def create(account: Access | Account, instance: Instance, *, volume_plan_id: str, actor: str, **values: Any) -> Volume:
    """Create a volume on the instance's hypervisor and attach it to the instance, which is not deployed yet."""
    plan = actions.get_offered_plan(volume_plan_id)
    storage = placement.lock_capacity(instance.hypervisor_id).choose_storage(
        plan.size, placement.HOST_STORAGE_FULL_MESSAGE, "volume_plan_id"
    )
    volume = actions.create(
        account,
        volume_plan_id=volume_plan_id,
        hypervisor_group_id=instance.group_id,
        storage=storage,
        actor=actor,
        **values,
    )
    attach(volume, instance, actor=actor)
    return volume


def make_error(sentence: Message) -> Invalid:
    return Invalid(sentence, volume_ids=sentence)
