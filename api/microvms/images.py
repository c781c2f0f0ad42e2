"""Images of micro VMs: customers build their own, operators the platform's."""

from marshmallow import fields

from api import kit
from api.microvms import admin, user
from api.microvms.admin_microvms import READ_PERMISSION, WRITE_PERMISSION
from api.microvms.customer import DELETE_PERMISSION, MANAGE_PERMISSION, VIEW_PERMISSION
from panel.schemas.base import describe
from panel.schemas.microvm_images import (
    AdminMicrovmImageDetailOut,
    AdminMicrovmImageIn,
    AdminMicrovmImageOut,
    AdminMicrovmImagePatch,
    AdminMicrovmImageQuery,
    MicrovmImageBuildOut,
    MicrovmImageIn,
    MicrovmImagePatch,
)
from panel.schemas.microvms import EXAMPLE_ID, MicrovmImageOut, MicrovmImageQuery
from panel.services.microvms import image_builds, images

IMAGE_PATH = "/microvm/image/<microvm_image_id>"
WRAPPED_IMAGE = kit.build_wrapped_schema("image", MicrovmImageOut)
IMAGE_RESPONSE = kit.Done.from_dict(
    {
        "image": fields.Nested(MicrovmImageOut, **describe("The image.")),
        "build": fields.Nested(
            MicrovmImageBuildOut,
            allow_none=True,
            **describe("Its latest build; null for the platform's images."),
        ),
    },
    name="MicrovmImageWithBuild",
)
BUILD_RESPONSE = kit.Done.from_dict(
    {
        "task_id": fields.String(**describe("The task that builds it.", EXAMPLE_ID)),
        "image": fields.Nested(MicrovmImageOut, **describe("The image.")),
    },
    name="MicrovmImageBuildRequested",
)


def get_own_image(microvm_image_id):
    return images.get_own(microvm_image_id, kit.get_current_access())


def describe_build(image):
    return {"message": "Build requested.", "task_id": image.build.task_id, "image": image}


@user.get(
    "/microvm/images",
    op="images",
    can=VIEW_PERMISSION,
    query=MicrovmImageQuery,
    out=kit.build_page_schema(MicrovmImageOut),
)
def listing(query):
    """List the images for micro VMs, by name: the platform's and the account's own, also those being built."""
    return kit.paginate(images.listing(kit.get_current_access(), **query))


@user.post(
    "/microvm/images",
    op="image_create",
    can=MANAGE_PERMISSION,
    body=MicrovmImageIn,
    out=BUILD_RESPONSE,
    status=202,
)
def create(body):
    """Build an image: start from another one, execute commands, and store the disk.

    Poll the image until it is `available` or `failed`. The commands may take 15 minutes together; the first that fails
    ends the build. Refused with 422: `no_microvm_node` when no hypervisor has room, `image_limit`, `build_limit` and
    `image_storage_limit` when the account may not have more.
    """
    access, actor = kit.get_current_access(), kit.get_current_actor()
    return describe_build(image_builds.create(access, actor=actor, **body))


@user.get(IMAGE_PATH, op="image_get", can=VIEW_PERMISSION, out=IMAGE_RESPONSE)
def show(microvm_image_id):
    """Show an image, and of an own one the build with its log."""
    image = images.get(microvm_image_id, kit.get_current_access())
    return {"image": image, "build": None if image.is_platform else image.build}


@user.patch(IMAGE_PATH, op="image_update", can=MANAGE_PERMISSION, body=MicrovmImagePatch, out=WRAPPED_IMAGE)
def update(body, microvm_image_id):
    """Change the name, the label and the sizes of an own image.

    Micro VMs that exist stay as they are. 404 for the platform's images.
    """
    return {"message": "The image is changed.", "image": images.update(get_own_image(microvm_image_id), body)}


@user.post(f"{IMAGE_PATH}/build", op="image_build", can=MANAGE_PERMISSION, out=BUILD_RESPONSE, status=202)
def build(microvm_image_id):
    """Build a failed image again, with the same commands.

    409: `not_failed`, `source_deleted`. 422 as for a new image.
    """
    access = kit.get_current_access()
    return describe_build(image_builds.retry(get_own_image(microvm_image_id), access, actor=kit.get_current_actor()))


@user.delete(IMAGE_PATH, op="image_delete", can=DELETE_PERMISSION, out=kit.build_result_schema())
def delete(microvm_image_id):
    """Delete an own image. A build is cancelled.

    Refused with 409 `image_in_use` while micro VMs or builds use it. 404 for the platform's images.
    """
    images.delete(get_own_image(microvm_image_id))
    return {"message": "The image is deleted."}


@admin.get(
    "/microvm/images",
    op="images",
    can=READ_PERMISSION,
    query=AdminMicrovmImageQuery,
    out=kit.build_admin_page_schema(AdminMicrovmImageOut),
)
def admin_listing(query):
    """List the images for micro VMs, by name.

    The platform's and customers', unless `owner` chooses one of them.
    """
    return kit.paginate(images.listing_all(**query))


@admin.post(
    "/microvm/images",
    op="image_create",
    can=WRITE_PERMISSION,
    body=AdminMicrovmImageIn,
    out=AdminMicrovmImageDetailOut,
    status=202,
)
def admin_create(body):
    """Build an image of the platform from another one and commands.

    Poll it until it is `available` or `failed`. Without a price it has that of its source.
    """
    kit.set_message("Build requested.")
    return image_builds.create(None, actor=kit.get_current_actor(), **body)


@admin.get(IMAGE_PATH, op="image_get", can=READ_PERMISSION, out=AdminMicrovmImageDetailOut)
def admin_show(microvm_image_id):
    """Show an image with its build.

    Customers' images are shown too.
    """
    return images.get(microvm_image_id)


@admin.patch(
    IMAGE_PATH, op="image_update", can=WRITE_PERMISSION, body=AdminMicrovmImagePatch, out=AdminMicrovmImageDetailOut
)
def admin_update(body, microvm_image_id):
    """Change an image.

    Only what is sent changes. A new price counts for new micro VMs. A customer's image has no aliases and is never
    public: 422 for `aliases` and `is_public`.
    """
    kit.set_message("Image updated.")
    return images.update(images.get(microvm_image_id), body)


@admin.post(f"{IMAGE_PATH}/build", op="image_build", can=WRITE_PERMISSION, out=AdminMicrovmImageDetailOut, status=202)
def admin_build(microvm_image_id):
    """Build a failed image of the platform again.

    With the same commands. 409: `not_failed`, `source_deleted`; 404 for customers' images.
    """
    kit.set_message("Build requested.")
    return image_builds.retry(images.get_of_platform(microvm_image_id), None, actor=kit.get_current_actor())


@admin.delete(IMAGE_PATH, op="image_delete", can=WRITE_PERMISSION)
def admin_delete(microvm_image_id):
    """Delete an image, also a customer's.

    Refused with 409 `image_in_use` while micro VMs or builds use it.
    """
    images.delete(images.get(microvm_image_id))
    kit.set_message("Image deleted.")
