"""Images of micro VMs: which there are, changing and deleting them, and registering one after it was built."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import joinedload

from panel.core import jobs
from panel.core.db import on_commit, session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message, plural_message
from panel.core.task_kinds import task_kind
from panel.models import Account, Microvm, MicrovmImage, MicrovmImageBuild, ResourceGrant, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import tasks
from panel.services.access import Access
from panel.services.crud import ensure_unique_name, update_fields

task_kind("microvm_image_build", "Micro VM image build")

FILE_KINDS, FILE_FACTS = ("disk", "kernel", "initrd"), ("path", "size", "sha256")
RESERVED_NAMES = frozenset({"base"})
"""Names that SDKs use when they are given none, so customers' images cannot have them."""


@dataclass(frozen=True)
class ImageFile:
    """A file of an image. `path` is relative to the data directory."""

    path: str
    size: int
    """Bytes."""
    sha256: str


def usable_condition(account: Access | Account | None) -> ColumnElement[bool]:
    """Return the condition for the platform's public images and the account's own; without an account for all of the
    platform's."""
    platform = MicrovmImage.account_id.is_(None)
    return or_(and_(platform, MicrovmImage.is_public), account.visible_rows(MicrovmImage)) if account else platform


def listing(account: Access | Account | None = None, *, search: str | None = None) -> Select[MicrovmImage]:
    """Select the images that the account may use, by name; without an account the platform's."""
    query = select(MicrovmImage).where(usable_condition(account)).order_by(MicrovmImage.name, MicrovmImage.id)
    return query.where(MicrovmImage.name.icontains(search, autoescape=True)) if search else query


def select_available(account: Access | Account | None = None) -> Select[MicrovmImage]:
    return listing(account).where(MicrovmImage.status == "available")


def listing_all(
    *, search: str | None = None, status: str | None = None, owner: str | None = None
) -> Select[MicrovmImage]:
    """Select everybody's images for operators, by name. `owner`: `platform` or `customers`."""
    query = select(MicrovmImage).options(joinedload(MicrovmImage.account))
    query = query.order_by(MicrovmImage.name, MicrovmImage.id)
    if owner:
        is_platform = MicrovmImage.account_id.is_(None)
        query = query.where(is_platform if owner == "platform" else ~is_platform)
    if status:
        query = query.where(MicrovmImage.status == status)
    return query.where(MicrovmImage.name.icontains(search, autoescape=True)) if search else query


def find(name: str, account: Access | Account) -> MicrovmImage | None:
    """Return the available image with this id, name or alias, or None. An own image comes before the platform's."""
    images = session.scalars(select_available(account)).all()
    own_first = sorted(images, key=lambda image: image.account_id is None)
    matches = (image for image in own_first if name in (image.id, image.name, *image.aliases))
    return next(matches, None)


def get(image_id: str, account: Access | Account | None = None) -> MicrovmImage:
    """Return an image that the account may use, in any status; without an account any image."""
    query = listing(account) if account else listing_all()
    image = session.scalar(query.where(MicrovmImage.id == image_id))
    if image is None:
        raise NotFound(message("No such micro VM image."))
    return image


def get_own(image_id: str, account: Access | Account) -> MicrovmImage:
    """Return an image that belongs to the account."""
    image = get(image_id, account)
    if image.account_id is None:
        raise NotFound(message("No such micro VM image."))
    return image


def get_of_platform(image_id: str) -> MicrovmImage:
    image = get(image_id)
    if image.account_id is not None:
        raise NotFound(message("No such micro VM image."))
    return image


def get_available(image_id: str, account: Access | Account | None, error_field: str = "image_id") -> MicrovmImage:
    """Return an image that the account may use. Raise Invalid for any other."""
    image = session.scalar(select_available(account).where(MicrovmImage.id == image_id))
    if image is None:
        raise Invalid(message("The image cannot be chosen."), **{error_field: message("No such micro VM image.")})
    return image


def update(image: MicrovmImage, changes: dict[str, Any]) -> MicrovmImage:
    """Change name, label and sizes; of the platform's images also aliases, price and visibility."""
    if "name" in changes:
        ensure_name_is_free(changes["name"], image.account_id, exclude=image)
    if "aliases" in changes:
        if changes["aliases"] and image.account_id:
            sentence = message("Only images of the platform have aliases.")
            raise Invalid(sentence, aliases=sentence)
        ensure_aliases_are_free(changes["aliases"], exclude=image)
    if changes.get("is_public") and image.account_id:
        sentence = message("Only images of the platform are public.")
        raise Invalid(sentence, is_public=sentence)
    for field, minimum, sentence in (
        ("memory_mb", image.min_memory_mb, message("The image needs {size} MiB of memory.", size=image.min_memory_mb)),
        ("disk_gb", image.min_disk_gb, message("The image needs a disk of {size} GiB.", size=image.min_disk_gb)),
    ):
        if changes.get(field, minimum) < minimum:
            raise Invalid(sentence, **{field: sentence})
    return update_fields(image, changes)


def ensure_name_is_free(name: str, account_id: str | None, *, exclude: MicrovmImage | None = None) -> None:
    """Raise when another image of the owner has the name, and when it is one of the platform's."""
    ensure_unique_name(MicrovmImage, name, exclude=exclude, account_id=account_id)
    platform = session.scalars(select(MicrovmImage).where(MicrovmImage.account_id.is_(None))).all()
    taken = {name for image in platform if image is not exclude for name in (image.name, *image.aliases)}
    if name in taken or (account_id and name in RESERVED_NAMES):
        sentence = message("This name is one of the platform's.")
        raise Invalid(sentence, name=sentence)


def ensure_aliases_are_free(aliases: Iterable[str], *, exclude: MicrovmImage | None = None) -> None:
    """Raise when another image of the platform has one of the names."""
    platform = session.scalars(select(MicrovmImage).where(MicrovmImage.account_id.is_(None))).all()
    taken = {name for image in platform if image is not exclude for name in (image.name, *image.aliases)}
    if names := sorted(taken.intersection(aliases)):
        sentence = message("Another image has this name: {name}.", name=names[0])
        raise Invalid(sentence, aliases=sentence)


def delete(image: MicrovmImage) -> None:
    """Delete the image and its files. A build is cancelled. Copies on nodes are removed later.

    Refused while micro VMs or builds use it.
    """
    is_live = Microvm.image_id == image.id, Microvm.ended_at.is_(None)
    if count := session.scalar(select(func.count()).where(*is_live)):
        raise Conflict(
            plural_message(
                "{count} micro VM uses the image. Destroy it first.",
                "{count} micro VMs use the image. Destroy them first.",
                count=count,
            ),
            reason="image_in_use",
        )
    is_source = MicrovmImageBuild.source_id == image.id, MicrovmImageBuild.ended_at.is_(None)
    if session.scalar(select(MicrovmImageBuild.id).where(*is_source).limit(1)):
        sentence = message("Another image is being built from it. Try again when that has finished.")
        raise Conflict(sentence, reason="image_in_use")
    for task in session.scalars(select(Task).where(Task.resource_id == image.id, Task.status.in_(OPEN_STATUSES))):
        if task.cancellable:
            tasks.cancel(task)
    paths = [image.disk_path, image.kernel_path, image.initrd_path]
    session.execute(ResourceGrant.__table__.delete().where(ResourceGrant.resource_id == image.id))
    session.delete(image)
    session.flush()
    on_commit(lambda: jobs.enqueue_call("worker.sync.microvm_image_files.remove_unused", *filter(None, paths)))


def make_files_key(*files: ImageFile) -> str:
    """Return the name that the files have on nodes: different for any other disk, kernel or initial file system."""
    return sha256(" ".join(file.sha256 for file in files).encode()).hexdigest()[:32]


def register(
    name: str,
    *,
    disk: ImageFile,
    kernel: ImageFile,
    initrd: ImageFile,
    kernel_options: str,
    aliases: Iterable[str] = (),
    account_id: str | None = None,
    **values: Any,
) -> MicrovmImage:
    """Add an image, or replace the owner's one with this name. Micro VMs that exist keep the files that they have.

    `values`: `label`, `cpu_cores`, `memory_mb`, `disk_gb`, `min_memory_mb`, `min_disk_gb`, `price`, `envs`.
    """
    query = select(MicrovmImage).where(MicrovmImage.name == name, MicrovmImage.account_id == account_id)
    image = session.scalar(query) or MicrovmImage(name=name, account_id=account_id, label=name, price=Decimal(0))
    values |= {"aliases": list(aliases), "kernel_options": kernel_options}
    for field, value in values.items():
        setattr(image, field, value)
    set_files(image, disk=disk, kernel=kernel, initrd=initrd)
    session.add(image)
    session.flush()
    return image


def set_files(image: MicrovmImage, **files: ImageFile) -> None:
    """Give the image its `disk`, `kernel` and `initrd`. It is available then."""
    for kind, file in files.items():
        for fact in FILE_FACTS:
            setattr(image, f"{kind}_{fact}", getattr(file, fact))
    image.files_key = make_files_key(files["disk"], files["kernel"], files["initrd"])
    image.status = "available"
