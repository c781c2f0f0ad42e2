"""Images from which instances are installed, for operators."""

from api import kit
from panel.schemas.images import (
    AdminImageOut,
    AdminImageRow,
    BrowserIn,
    CatalogOut,
    CatalogQuery,
    ImageIn,
    ImagePatch,
    ImageQuery,
    ReleaseIn,
)
from panel.services import catalog, image_catalog, images

admin = kit.Admin("image", __name__, description="Images")


@admin.get(
    "/images", op="list", can="admin:images:read", query=ImageQuery, out=kit.build_admin_page_schema(AdminImageRow)
)
def listing(query):
    """List all images, including custom images.

    Filter with `purpose` and `search`. An unknown purpose returns 422.
    """
    return kit.paginate(catalog.select_images(**query))


@admin.get("/image/<image_id>", op="get", can="admin:images:read", out=AdminImageOut)
def show(image_id):
    """Get an image with the hypervisors that have a copy.

    `download_error` is the reason why the file could not be downloaded; null if there is no problem.
    """
    return with_holders(catalog.get_image(image_id))


@admin.put("/image/<image_id>", op="update", can="admin:images:write", body=ImagePatch, out=AdminImageOut)
def update(body, image_id):
    """Update an image.

    Only the fields you send are changed. Instances created from the image are not affected. Returns 422 for fields that
    the system manages, and under `purpose` for a custom image, whose purpose is always `user`.
    """
    kit.set_message("Image updated.")
    return with_holders(catalog.update_image(catalog.get_image(image_id), **body))


def with_holders(image):
    image.hypervisors = catalog.list_image_holders(image)
    return image


DOWNLOAD_MESSAGE = "Download requested."


@admin.post("/images", op="create", can="admin:images:write", body=ImageIn, out=AdminImageOut)
def create(body):
    """Add an image from an https URL.

    The image can be selected once its file is in the panel's image folder. Until then its status is `downloading`;
    failed downloads are retried with increasing delays. Returns 422 under `name` if the name is already used, and under
    `url` if the URL is not https or not public.
    """
    kit.set_message(DOWNLOAD_MESSAGE)
    return with_holders(images.create(actor=kit.get_current_actor(), **body))


@admin.post("/image/<image_id>/retry", op="retry", can="admin:images:write", out=AdminImageOut)
def retry(image_id):
    """Retry the download of an image immediately.

    Resets the number of failed attempts and the delay. Returns 409 `no_url` for an image without a download URL.
    """
    image = catalog.get_image(image_id)
    images.retry(image, actor=kit.get_current_actor())
    kit.set_message("Download requested.")
    return with_holders(image)


@admin.delete("/image/<image_id>", op="delete", can="admin:images:write")
def delete(image_id):
    """Delete an image with its file and its copies on hypervisors.

    Copies that disks are based on are kept. Instances created from the image are not affected, but a reinstall needs
    another image. Returns 409 `task_running` while a custom image is being created.
    """
    images.delete(catalog.get_image(image_id), actor=kit.get_current_actor())
    kit.set_message("Image deleted.")


@admin.post(
    "/image/<image_id>/update/release", op="update_release", can="admin:images:write", body=ReleaseIn, out=AdminImageOut
)
def update_release(body, image_id):
    """Update an image to the current release in the upstream catalog.

    The current file stays in use until the new one is downloaded. Returns 400 `catalog_mismatch` if the catalog entry
    is for another distribution or major version.
    """
    image = image_catalog.update_to_release(catalog.get_image(image_id), actor=kit.get_current_actor(), **body)
    kit.set_message("Image updated. If the release is new, its file is downloaded.")
    return with_holders(image)


@admin.get("/image-browser", op="browse", can="admin:images:read", query=CatalogQuery, out=CatalogOut(many=True))
def browse(query):
    """List the images of the upstream catalog.

    Add an entry with `POST /api/v1/image-browser/add`. This call downloads no files.
    """
    return image_catalog.list_entries(**query)


@admin.post("/image-browser/add", op="browse_add", can="admin:images:write", body=BrowserIn, out=AdminImageOut)
def add_from_catalog(body):
    """Add an image from the upstream catalog or from a URL.

    The size is taken from the catalog if the URL is the catalog's, else from the request, else from the web server.
    Returns 400 `size_unknown` if none of them has it.
    """
    kit.set_message(DOWNLOAD_MESSAGE)
    return with_holders(image_catalog.add(actor=kit.get_current_actor(), **body))
