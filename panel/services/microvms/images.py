"""Images of micro VMs: which there are, and registering one after it was built."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Select, or_, select

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Account, MicrovmImage
from panel.services.access import Access


@dataclass(frozen=True)
class ImageFile:
    """A file of an image. `path` is relative to the data directory."""

    path: str
    size: int
    """Bytes."""
    sha256: str


def usable_condition(account: Access | Account | None) -> ColumnElement[bool]:
    """Return the condition for the platform's images and the account's own."""
    platform = MicrovmImage.account_id.is_(None)
    return or_(platform, account.visible_rows(MicrovmImage)) if account else platform


def listing(account: Access | Account | None = None, *, search: str | None = None) -> Select[MicrovmImage]:
    """Select the images that the account may use, by name; without an account the platform's."""
    query = select(MicrovmImage).where(usable_condition(account)).order_by(MicrovmImage.name, MicrovmImage.id)
    return query.where(MicrovmImage.name.icontains(search, autoescape=True)) if search else query


def find(name: str, account: Access | Account) -> MicrovmImage | None:
    """Return the available image with this id, name or alias, or None. An own image comes before the platform's."""
    images = session.scalars(listing(account).where(MicrovmImage.status == "available")).all()
    own_first = sorted(images, key=lambda image: image.account_id is None)
    matches = (image for image in own_first if name in (image.id, image.name, *image.aliases))
    return next(matches, None)


def get_available(image_id: str, account: Access | Account, error_field: str = "image_id") -> MicrovmImage:
    """Return an image that the account may use. Raise Invalid for any other."""
    query = listing(account).where(MicrovmImage.id == image_id, MicrovmImage.status == "available")
    image = session.scalar(query)
    if image is None:
        raise Invalid(message("The image cannot be chosen."), **{error_field: message("No such micro VM image.")})
    return image


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
    for kind, file in (("disk", disk), ("kernel", kernel), ("initrd", initrd)):
        for fact in ("path", "size", "sha256"):
            setattr(image, f"{kind}_{fact}", getattr(file, fact))
    values |= {"aliases": list(aliases), "kernel_options": kernel_options, "status": "available"}
    for field, value in values.items():
        setattr(image, field, value)
    image.files_key = make_files_key(disk, kernel, initrd)
    session.add(image)
    session.flush()
    return image
