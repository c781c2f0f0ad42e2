"""Customers' own images, captured from their instances."""

from api import kit
from panel.core.errors import Invalid, NotFound
from panel.schemas.image_captures import CaptureIn, ImageRename, OwnImageOut
from panel.schemas.isos import IsoQuery
from panel.services import backup_restores, image_captures, instance_backups, instances

user = kit.User("image", __name__, description="Images")


@user.get("/images", op="list", can="images.view", query=IsoQuery, out=kit.build_page_schema(OwnImageOut))
def listing(query):
    """List your custom images, newest first."""
    return kit.paginate(image_captures.listing(kit.get_current_access(), **query))


@user.post(
    "/images", op="create", can="images.manage", body=CaptureIn, out=kit.build_wrapped_schema("image", OwnImageOut)
)
def create(body):
    """Create an image from the first disk of an instance, or of a backup.

    The instance can be running. The image contains the disk at one point in time shortly after the request; writes
    after that only go to the instance's own disk. The file systems of a running guest are frozen for a moment through
    the guest agent; without an agent the image is in the state after a power failure. Poll the list until the image's
    status is `available` or `error`; an available image can be deployed like any other. Until then the instance cannot
    be started or migrated, and no live-snapshot session can be started. Returns 409 `not_deployed`, `suspended`,
    `task_running`, `already_active` (a live-snapshot session) or `image_disabled`, and 422 `limit_reached`. With
    `backup_id` the image has the disk as the backup stored it; the instance may be destroyed. Returns 422
    `backup_not_complete` or `source_archive_not_found`, and 409 `backup_being_deleted` for such backups.
    """
    if "backup_id" in body:
        return {"message": "Image requested.", "image": create_from_backup(**body)}
    try:
        instance = instances.get(body.pop("instance_id"), kit.get_current_access())
    except NotFound as error:
        raise Invalid(error.message, instance_id=error.message) from None
    image = image_captures.capture(instance, actor=kit.get_current_actor(), **body)
    return {"message": "Image requested.", "image": image}


def create_from_backup(backup_id, **options):
    try:
        backup = instance_backups.get(backup_id, kit.get_current_access())
    except NotFound as error:
        raise Invalid(error.message, backup_id=error.message) from None
    return backup_restores.create_image(backup, actor=kit.get_current_actor(), **options)


@user.get("/image/<image_id>", op="get", can="images.view", out=kit.build_wrapped_schema("image", OwnImageOut))
def show(image_id):
    """Get a custom image."""
    return {"image": image_captures.get(image_id, kit.get_current_access())}


@user.patch(
    "/image/<image_id>",
    op="update",
    can="images.manage",
    body=ImageRename,
    out=kit.build_wrapped_schema("image", OwnImageOut),
)
def rename(body, image_id):
    """Rename a custom image."""
    image = image_captures.get(image_id, kit.get_current_access())
    return {"message": "Image updated.", "image": image_captures.rename(image, body.get("name", image.name))}


@user.post(
    "/image/<image_id>/retry", op="retry", can="images.manage", out=kit.build_wrapped_schema("image", OwnImageOut)
)
def retry(image_id):
    """Retry a failed custom image.

    Copies the instance's disk again, in its current state. Returns 409 `not_failed` if the image did not fail,
    `instance_gone` if its instance was destroyed, and the reasons for which an image cannot be created.
    """
    image = image_captures.get(image_id, kit.get_current_access())
    return {
        "message": "Image requested.",
        "image": image_captures.retry(image, kit.get_current_access(), actor=kit.get_current_actor()),
    }


@user.delete("/image/<image_id>", op="delete", can="images.delete", out=kit.build_result_schema())
def delete(image_id):
    """Delete a custom image. Instances created from it are not affected."""
    image_captures.delete(image_captures.get(image_id, kit.get_current_access()), actor=kit.get_current_actor())
    return {"message": "Image deleted."}
