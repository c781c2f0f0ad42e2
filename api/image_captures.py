"""Customers' own images, captured from their instances."""

from api import kit
from panel.core.errors import Invalid, NotFound
from panel.schemas.image_captures import CaptureIn, ImageRename, OwnImageOut
from panel.schemas.isos import IsoQuery
from panel.services import image_captures, instances

user = kit.User("image", __name__, description="Images")


@user.get("/images", op="list", can="images.view", query=IsoQuery, out=kit.build_page_schema(OwnImageOut))
def listing(query):
    """List the account's own images, newest first."""
    return kit.paginate(image_captures.listing(kit.get_current_access(), **query))


@user.post(
    "/images", op="create", can="images.manage", body=CaptureIn, out=kit.build_wrapped_schema("image", OwnImageOut)
)
def create(body):
    """Make an image of the first disk of an instance, also while it runs.

    The image has the disk as it was at one moment, soon after the request. The file systems of a running guest are
    frozen for that moment through the guest agent; where no agent answers the image is as after a power failure. The
    guest goes on and its later writes are in its own disk only. Poll the list until the image's status is `available`
    or `error`; then it can be deployed like any other. Until then the instance is not started, migrated or given a live
    session. Refused (409) with `not_deployed`, `suspended`, `task_running`, `already_active` (a live session) and
    `image_disabled`, and (422) with `limit_reached`.
    """
    try:
        instance = instances.get(body.pop("instance_id"), kit.get_current_access())
    except NotFound as error:
        raise Invalid(error.message, instance_id=error.message) from None
    image = image_captures.capture(instance, actor=kit.get_current_actor(), **body)
    return {"message": "The image is being made.", "image": image}


@user.get("/image/<image_id>", op="get", can="images.view", out=kit.build_wrapped_schema("image", OwnImageOut))
def show(image_id):
    """Show an image of the account's own."""
    return {"image": image_captures.get(image_id, kit.get_current_access())}


@user.patch(
    "/image/<image_id>",
    op="update",
    can="images.manage",
    body=ImageRename,
    out=kit.build_wrapped_schema("image", OwnImageOut),
)
def rename(body, image_id):
    """Rename an image of the account's own."""
    image = image_captures.get(image_id, kit.get_current_access())
    return {"message": "The image is changed.", "image": image_captures.rename(image, body.get("name", image.name))}


@user.post(
    "/image/<image_id>/retry", op="retry", can="images.manage", out=kit.build_wrapped_schema("image", OwnImageOut)
)
def retry(image_id):
    """Make a failed image of the account's own again.

    Its instance is copied anew, as it is now. Refused (409) with `not_failed` when the image did not fail, with
    `instance_gone` when its instance was destroyed, and for the reasons for which an image cannot be made.
    """
    image = image_captures.get(image_id, kit.get_current_access())
    return {
        "message": "The image is being made.",
        "image": image_captures.retry(image, kit.get_current_access(), actor=kit.get_current_actor()),
    }


@user.delete("/image/<image_id>", op="delete", can="images.delete", out=kit.build_result_schema())
def delete(image_id):
    """Remove an image of the account's own. Instances that were made from it go on."""
    image_captures.delete(image_captures.get(image_id, kit.get_current_access()), actor=kit.get_current_actor())
    return {"message": "The image is removed."}
