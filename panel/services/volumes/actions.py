"""Create, attach, resize and delete volumes.

Rows have at once the values that clients store (`status`, `instance_id`, the plan). Workers carry out the tasks in the
order in which they were requested, and do not start a task after a failed one. `size` changes when the disk has grown.
"""

from typing import Any

from sqlalchemy import Select, exists, select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Account, HypervisorGroup, Instance, Storage, Task, Volume, VolumePlan
from panel.models.tasks import OPEN_STATUSES
from panel.services import catalog, disks, ids, instances, placement, projects, usage, volume_plans
from panel.services.access import Access

task_kind("volume_create", "New volume")
task_kind("volume_forget", "Volume forget")
task_kind("volume_attach", "Volume attach")
task_kind("volume_detach", "Volume detach")
task_kind("volume_resize", "Volume growth")
task_kind("volume_delete", "Volume removal")


def create(
    account: Access | Account,
    *,
    name: str,
    volume_plan_id: str,
    hypervisor_group_id: str,
    actor: str,
    project_id: str | None = None,
    storage: Storage | None = None,
    backup_id: str | None = None,
) -> Volume:
    """Create a volume in the storage with the most free space, with the content of a backup if there is one. A blank
    volume may move to the hypervisor of its first instance."""
    group = catalog.get_location(hypervisor_group_id, account, "hypervisor_group_id")
    plan = get_offered_plan(volume_plan_id)
    project = projects.get(project_id, account, "project_id") if project_id else None
    volume = Volume(
        name=name,
        account_id=account.id,
        project_id=project and project.id,
        group=group,
        plan=plan,
        storage=storage or choose_storage(group, plan),
        disk_name=ids.generate_volume_disk_name(),
        size=plan.size,
        ever_attached=backup_id is not None,
    )
    session.add(volume)
    session.flush()
    account.grant_on_create(volume)
    usage.start_metering("volume", volume, name=name, plan=plan.name, price=plan.price, billing_mode="cloud_service")
    if storage is None:
        enqueue(volume, "backup_copy", actor, backup_id=backup_id) if backup_id else enqueue(volume, "create", actor)
    return volume


def get_offered_plan(plan_id: str) -> VolumePlan:
    plan = session.scalar(volume_plans.select_offered().where(VolumePlan.id == plan_id))
    if plan is None:
        raise Invalid(message("The plan cannot be chosen."), volume_plan_id=message("No such volume plan is offered."))
    return plan


def choose_storage(group: HypervisorGroup, plan: VolumePlan) -> Storage:
    capacity = placement.Capacity(placement.lock_hosts(placement.select_open_hypervisors(group)))
    return capacity.choose_storage(plan.size, placement.LOCATION_STORAGE_FULL_MESSAGE, "volume_plan_id")


def attach(volume: Volume, *, instance_id: str, account: Access | Account | None, actor: str) -> Volume:
    """Attach the volume to an instance of the account (None: of any account).

    The row changes at once, the guest later.
    """
    if volume.status != "available":
        raise Invalid(
            message("The volume cannot be attached: it is {status}.", status=volume.status),
            reason="volume_not_available",
        )
    instance = get_instance_or_422(instance_id, account)
    if instance.account_id != volume.account_id:
        raise Invalid(message("No such instance."), instance_id=message("No such instance."))
    if instance.group_id != volume.group_id:
        raise Invalid(
            message("The instance is elsewhere."),
            instance_id=message("The instance is in another location than the volume."),
        )
    disks.ensure_changeable(instance, by_operator=account is None)
    if len(instance.disks) + len(instance.volumes) >= disks.MAX_DISKS_PER_INSTANCE:
        raise Invalid(
            message("The instance cannot have another disk."),
            instance_id=message("It already has the maximum number of disks."),
        )
    if volume.storage.hypervisor_id != instance.hypervisor_id:
        recreate_at_instance(volume, instance, actor)
    volume.instance, volume.status, volume.error = instance, "attached", None
    enqueue(volume, "attach", actor, instance_id=instance.id)
    return volume


def get_instance_or_422(instance_id: str, account: Access | Account | None) -> Instance:
    try:
        return instances.get(instance_id, account)
    except NotFound as error:
        raise Invalid(message("No such instance."), instance_id=message("No such instance.")) from error


def recreate_at_instance(volume: Volume, instance: Instance, actor: str) -> None:
    """Create the volume again on the instance's hypervisor. Allowed only while it was never used and so has no data."""
    if volume.pending:
        raise Conflict(
            message("Another task of the volume is in progress. Try again when it has finished."), reason="task_running"
        )
    if volume.ever_attached or volume.snapshots:
        sentence = message("The volume is on another hypervisor than the instance. Choose an instance there.")
        raise Invalid(sentence, instance_id=sentence)
    arguments = {"pool": volume.storage.name, "name": volume.disk_name}
    jobs.enqueue(
        "volume_forget",
        "volume",
        volume,
        lock="light",
        actor=actor,
        hypervisor_id=volume.storage.hypervisor_id,
        arguments=arguments,
    )
    volume.storage = disks.choose_storage(instance, volume.size)


def detach(volume: Volume, *, actor: str, by_operator: bool = False) -> Volume:
    """Detach the volume from its instance. Its data stay; a running guest has to release it."""
    if volume.instance is None:
        raise Invalid(message("The volume is not attached."), reason="volume_not_attached")
    disks.ensure_changeable(volume.instance, by_operator=by_operator)
    enqueue(volume, "detach", actor, instance_id=volume.instance_id)
    volume.instance, volume.status, volume.error = None, "available", None
    session.flush()
    return volume


def resize(volume: Volume, *, volume_plan_id: str, actor: str) -> bool:
    """Move the volume to another plan of its class. Return whether the new plan is cheaper."""
    if volume.status not in ("available", "attached"):
        raise Invalid(
            message("The volume cannot be resized: it is {status}.", status=volume.status),
            reason="volume_not_available",
        )
    plan = get_offered_plan(volume_plan_id)
    if plan.volume_plan_group_id != volume.plan.volume_plan_group_id:
        raise Invalid(message("The plan is of another class."), volume_plan_id=message("A volume stays in its class."))
    if plan.size < volume.reserved_size:
        raise Invalid(disks.SHRINK_MESSAGE, volume_plan_id=disks.SHRINK_MESSAGE)
    if volume.instance:
        disks.ensure_changeable(volume.instance)
    if plan.size > volume.reserved_size:
        growth = plan.size - volume.reserved_size
        placement.ensure_space(volume.storage, growth, placement.VOLUME_STORAGE_FULL_MESSAGE, "volume_plan_id")
    cheaper, before = plan.price < volume.plan.price, {"plan_id": volume.plan_id}
    volume.plan, volume.growing_to = plan, plan.size if plan.size > volume.size else None
    session.flush()
    usage.change_price(volume, plan=plan.name, price=plan.price)
    enqueue(volume, "resize", actor, instance_id=volume.instance_id, before=before, size=plan.size)
    return cheaper


def delete(volume: Volume, *, actor: str, by_operator: bool = False) -> Task:
    """Delete the volume with its snapshots, after detaching it.

    From then on only operators find it, and the deletion is retried until it succeeds.
    """
    if volume.instance:
        disks.ensure_changeable(volume.instance, by_operator=by_operator)
    if any(snapshot.status in ("creating", "restoring") for snapshot in volume.snapshots):
        raise Conflict(
            message("A task of one of the volume's snapshots is in progress. Try again when it has finished."),
            reason="task_running",
        )
    usage.stop_metering(volume)
    task = enqueue(volume, "delete", actor, instance_ids=list_holder_ids(volume))
    volume.instance, volume.status, volume.error = None, "deleting", None
    session.flush()
    return task


def list_holder_ids(volume: Volume) -> list[str]:
    """Return ids of the instances that may have its disk: the attached one, and those of open tasks."""
    query = select(Task).where(Task.resource_id == volume.id, Task.status.in_(OPEN_STATUSES))
    instance_ids = [task.arguments.get("instance_id") for task in session.scalars(query)]
    return sorted({id_ for id_ in (volume.instance_id, *instance_ids) if id_})


def retry_delete(volume: Volume) -> Task:
    """Enqueue another attempt to delete a volume, after a failed one."""
    earlier = session.get(Task, volume.task_id or "")
    instance_ids = earlier.arguments.get("instance_ids", []) if earlier and earlier.kind == "volume_delete" else []
    volume.next_delete_at = None
    return enqueue(volume, "delete", earlier.actor if earlier else "system", instance_ids=instance_ids)


def select_undeleted() -> Select[Volume]:
    """Select volumes in `deleting` without an open task that deletes them."""
    deleting = exists().where(
        Task.resource_id == Volume.id, Task.kind == "volume_delete", Task.status.in_(OPEN_STATUSES)
    )
    return select(Volume).where(Volume.status == "deleting", ~deleting)


def enqueue(volume: Volume, action: str, actor: str, *, machine: Instance | None = None, **arguments: Any) -> Task:
    """Enqueue a task that waits for the volume's previous task, if that is open. With `machine` it is a task of this
    instance, which waits for those that use the same machine as well."""
    session.expire(volume, ["latest_task"])
    earlier = volume.pending
    task = jobs.enqueue(
        f"volume_{action}",
        "instance" if machine else "volume",
        machine or volume,
        lock="storage" if machine else "light",
        actor=actor,
        hypervisor_id=volume.storage.hypervisor_id,
        arguments={"after": earlier and earlier.id, **arguments},
    )
    volume.task_id = task.id
    session.flush()
    session.expire(volume, ["latest_task"])
    return task
