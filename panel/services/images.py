"""The platform's own images: added by URL, downloaded to the panel's folder, deleted."""

from typing import Any

from sqlalchemy import Select, or_, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import Image, Task
from panel.services import image_captures
from panel.services.crud import ensure_unique_name
from panel.services.media import downloads, remote_file
from panel.services.search_kinds import contains_text, platform_search


def create(
    *, name: str, url: str, actor: str, sha256: str | None = None, label: str | None = None, size: int = 0, **facts: Any
) -> Image:
    """Add an image to the catalog. It is `downloading` until its file is complete."""
    remote_file.ensure_allowed_url(url)
    ensure_unique_name(Image, name, account_id=None)
    image = Image(name=name, label=label or name, url=url, expected_sha256=sha256, size=size or 0, **facts)
    image.status = "downloading"
    session.add(image)
    session.flush()
    downloads.start(downloads.get_or_create(image), actor=actor)
    session.refresh(image, ["downloads"])
    return image


def retry_fetch(image: Image, *, actor: str) -> Task | None:
    """Download the file again, in any state. The current file stays in use until then."""
    if image.url is None:
        raise Conflict(message("The image has no download URL."), reason="no_url")
    download = downloads.get_or_create(image)
    download.status = "waiting"
    if not image.filename:
        image.status = "downloading"
    image.download_reset_at = clock.now()
    download.attempts, download.error, download.error_at = 0, None, None
    return downloads.start(download, actor=actor)


def retry(image: Image, *, actor: str) -> list[Task]:
    """Reset the back-off of a failing download and start it now."""
    if image.url is None:
        raise Conflict(message("The image has no download URL."), reason="no_url")
    if image.status == "error":
        image.status = "downloading"
    downloads.get_or_create(image)
    session.refresh(image, ["downloads"])
    return downloads.retry(image, actor=actor)


def delete(image: Image, *, actor: str) -> None:
    """Remove the image from the catalog. Instances that were made from it continue."""
    if image.status == "creating":
        raise Conflict(message("The image is being created. Try again when that has finished."), reason="task_running")
    image_captures.delete(image, actor=actor)


@platform_search("image", permission="admin:images:read", position=70)
def select_by_any_name(text: str) -> Select[str, str, str]:
    condition = or_(contains_text(Image.label, text), contains_text(Image.name, text), Image.id == text.lower())
    return select(Image.id, Image.label, Image.name).where(condition).order_by(Image.label)
