"""Images from which machines are installed, for operators."""

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
    """List every image, captured ones too.

    `purpose` and `search` narrow the list. An unknown purpose answers 422.
    """
    return kit.paginate(catalog.select_images(**query))


@admin.get("/image/<image_id>", op="get", can="admin:images:read", out=AdminImageOut)
def show(image_id):
    """Show an image, with the hypervisors that have a copy.

    `download_error` says why a file could not be fetched; null when there is no problem.
    """
    return with_holders(catalog.get_image(image_id))


@admin.put("/image/<image_id>", op="update", can="admin:images:write", body=ImagePatch, out=AdminImageOut)
def update(body, image_id):
    """Change an image.

    Only what is sent changes; facts of the file are managed by the system. Instances that were made from it are not
    changed. 422 for a fact of the file, and under `purpose` for a captured image, whose purpose stays `user`.
    """
    kit.set_message("The image is changed.")
    return with_holders(catalog.update_image(catalog.get_image(image_id), **body))


def with_holders(image):
    image.hypervisors = catalog.list_image_holders(image)
    return image


FETCHING_MESSAGE = "The image is being fetched."


@admin.post("/images", op="create", can="admin:images:write", body=ImageIn, out=AdminImageOut)
def create(body):
    """Add an image by its https address.

    It can be chosen once its file has come to the panel's folder. Its status is `downloading` until then, and a failed
    download is tried again with growing pauses. 422 under `name` when the name is taken, under `url` for an address
    that is not https or not public.
    """
    kit.set_message(FETCHING_MESSAGE)
    return with_holders(images.create(actor=kit.get_current_actor(), **body))


@admin.post("/image/<image_id>/retry", op="retry", can="admin:images:write", out=AdminImageOut)
def retry(image_id):
    """Fetch the file of an image again at once, whatever the pause after earlier failures.

    Failures are counted anew. 409 `no_url` for an image that was not fetched from an address.
    """
    image = catalog.get_image(image_id)
    images.retry(image, actor=kit.get_current_actor())
    kit.set_message("The download begins anew.")
    return with_holders(image)


@admin.delete("/image/<image_id>", op="delete", can="admin:images:write")
def delete(image_id):
    """Remove an image, with its file and its copies on hypervisors.

    A copy that disks are based on stays. Instances that were made from it go on; a reinstall needs another image.
    Refused with 409 `task_running` while a captured image is being made.
    """
    images.delete(catalog.get_image(image_id), actor=kit.get_current_actor())
    kit.set_message("The image is removed.")


@admin.post(
    "/image/<image_id>/update/release", op="update_release", can="admin:images:write", body=ReleaseIn, out=AdminImageOut
)
def update_release(body, image_id):
    """Bring an image to what the upstream catalog has of it now.

    Refused with `catalog_mismatch` (400) when the catalog's row is another distribution or major version. The file that
    is here counts until the new one has arrived.
    """
    image = image_catalog.update_to_release(catalog.get_image(image_id), actor=kit.get_current_actor(), **body)
    kit.set_message("The image is brought up to date.")
    return with_holders(image)


@admin.get("/image-browser", op="browse", can="admin:images:read", query=CatalogQuery, out=CatalogOut(many=True))
def browse(query):
    """List the images of the upstream catalog.

    Rows can be added with `POST /api/v1/image-browser/add`. Nothing is fetched by this call.
    """
    return image_catalog.list_entries(**query)


@admin.post("/image-browser/add", op="browse_add", can="admin:images:write", body=BrowserIn, out=AdminImageOut)
def add_from_catalog(body):
    """Add an image of the upstream catalog, or any other by its address.

    Its size is the catalog's when the address is, else the request's, else what the server says; without any it is
    refused with `size_unknown` (400).
    """
    kit.set_message(FETCHING_MESSAGE)
    return with_holders(image_catalog.add(actor=kit.get_current_actor(), **body))
