"""Images that customers capture from their instances."""

from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import selectinload

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Account, Image, ImageCopy, Instance, Storage, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import forges, tasks
from panel.services.access import Access
from panel.services.search_kinds import customer_name_search, select_by_name
from panel.services.state_machine import TASK_RUNNING, make_problem

task_kind("image_capture", "Image capture")
task_kind("image_delete", "Image delete")

MAX_CAPTURED_IMAGES = 10


def listing(account: Access | Account, *, search: str | None = None) -> Select[Image]:
    """Select the images that the account captured, newest first."""
    query = select(Image).where(account.visible_rows(Image), Image.purpose == "user").order_by(Image.id.desc())
    query = query.options(selectinload(Image.downloads))
    return query.where(Image.label.icontains(search, autoescape=True)) if search else query


@customer_name_search("image", "images", permission="images.view", position=22)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    query = select_by_name(Image, Image.label, Image.distro, search)
    return query.where(access.visible_rows(Image), Image.purpose == "user")


def get(image_id: str, account: Access | Account) -> Image:
    image = session.scalar(listing(account).where(Image.id == image_id))
    if image is None:
        raise NotFound(message("No such image."))
    return image


def capture(instance: Instance, *, name: str, actor: str, **options: Any) -> Image:
    """Create an image of the instance's first disk as it is when the copy begins, also while it runs. Return its row,
    with the status `creating`."""
    ensure_capturable(instance)
    source = instance.image
    image = add_image(
        instance.account_id,
        name=name,
        source=source,
        min_disk=instance.disks[0].size,
        secure_boot=source.secure_boot if source else instance.secure_boot_enabled,
        **options,
    )
    image.instance_id = instance.id
    session.flush()
    enqueue_capture(instance, image, actor)
    return image


def add_image(
    account_id: str,
    *,
    name: str,
    source: Image | None,
    min_disk: int,
    secure_boot: bool,
    cloudinit: bool | None = None,
    type: str | None = None,
) -> Image:
    """Add the row of an image whose file will be made of a disk. `source` is the image that the disk began with."""
    captured = select(func.count()).where(Image.account_id == account_id, Image.purpose == "user")
    if session.scalars(captured).one() >= MAX_CAPTURED_IMAGES:
        raise Invalid(
            message("An account can have at most {maximum} images. Remove one first.", maximum=MAX_CAPTURED_IMAGES),
            reason="limit_reached",
        )
    image = Image(
        account_id=account_id,
        name=name,
        label=name,
        distro=source.distro if source else "Other",
        version=source.version if source else "",
        release=source and source.release,
        type=type or (source.type if source else "linux"),
        cloudinit=(source.cloudinit if source else False) if cloudinit is None else cloudinit,
        purpose="user",
        public=False,
        status="creating",
        secure_boot=secure_boot,
        min_disk=min_disk,
        min_ram=source.min_ram if source else 0,
    )
    session.add(image)
    session.flush()
    return image


def retry(image: Image, account: Access | Account, *, actor: str) -> Image:
    """Capture the instance of a failed image again."""
    if image.status != "error":
        raise Conflict(message("The image did not fail."), reason="not_failed")
    query = select(Instance).where(account.visible_rows(Instance), Instance.id == image.instance_id)
    instance = session.scalar(query)
    if instance is None:
        raise Conflict(
            message("The instance of this image was deleted. Create an image from another one."), reason="instance_gone"
        )
    ensure_capturable(instance)
    image.status = "creating"
    enqueue_capture(instance, image, actor)
    session.flush()
    return image


def ensure_capturable(instance: Instance) -> None:
    if instance.state == "migrating" or instance.rebuilding:
        raise make_problem(TASK_RUNNING)
    for reason, is_true in (("suspended", instance.suspended_reason), ("not_deployed", not instance.deployed)):
        if is_true:
            raise make_problem(reason)
    forges.ensure_not_active(instance)
    if not instance.group.can_create("image"):
        raise Conflict(message("Image creation is turned off in this location."), reason="image_disabled")


def ensure_no_open_copy(instance: Instance) -> None:
    """Raise while an image of the instance is being captured or a backup made, which read the disks where they are."""
    query = select(Task.id).where(
        Task.resource_id == instance.id,
        Task.kind.in_(("image_capture", "backup_create", "volume_backup")),
        Task.status.in_(OPEN_STATUSES),
    )
    if session.scalar(query.limit(1)):
        raise make_problem(TASK_RUNNING)


def enqueue_capture(instance: Instance, image: Image, actor: str) -> Task:
    arguments = {"image_id": image.id}
    return jobs.enqueue(
        "image_capture",
        "instance",
        instance,
        lock="storage",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments=arguments,
    )


def rename(image: Image, name: str) -> Image:
    image.name = image.label = name
    session.flush()
    return image


def delete(image: Image, *, actor: str) -> None:
    """Delete the image's row now. Its file and the copies on nodes are deleted by tasks; a copy that disks are based on
    stays."""
    for task in session.scalars(select(Task).where(Task.kind == "image_capture", Task.status.in_(OPEN_STATUSES))):
        if task.arguments["image_id"] == image.id and task.cancellable:
            tasks.cancel(task)
    copies = select(ImageCopy).join(Storage).where(ImageCopy.image_id == image.id)
    others = select(Image.id).where(Image.sha256 == image.sha256, Image.id != image.id).limit(1)
    is_file_shared = image.sha256 and session.scalar(others)
    for copy in () if is_file_shared else session.scalars(copies):
        copy_location = {"pool": copy.storage.name, "name": f"{image.sha256[:32]}.{image.format}"}
        enqueue_file_deletion(image, actor, copy.storage.hypervisor_id, copy_location)
    if image.filename and not session.scalar(
        select(Image.id).where(Image.filename == image.filename, Image.id != image.id)
    ):
        enqueue_file_deletion(image, actor, None, {"filename": image.filename})
    session.delete(image)
    session.flush()


def enqueue_file_deletion(image: Image, actor: str, hypervisor_id: str | None, arguments: dict[str, Any]) -> None:
    jobs.enqueue(
        "image_delete", "image", image, lock="light", actor=actor, hypervisor_id=hypervisor_id, arguments=arguments
    )
