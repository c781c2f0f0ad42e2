"""Images: what machines are made from, for operators."""

from api import kit
from panel.schemas.images import AdminImageOut, AdminImageRow, ImagePatch, ImageQuery
from panel.services import catalog

admin = kit.Admin("image", __name__, description="Images")


@admin.get("/images", op="list", can="admin:images:read", query=ImageQuery, out=kit.rows(AdminImageRow))
def listing(query):
    """List every image, captured ones too."""
    page, per_page = query.pop("page"), query.pop("per_page")
    return kit.paginate(catalog.images(**query), page, per_page, "admin")


@admin.get("/image/<image_id>", op="get", can="admin:images:read", out=AdminImageOut)
def show(image_id):
    """Show an image, with the hypervisors that have a copy."""
    return held(catalog.get_image(image_id))


@admin.put("/image/<image_id>", op="update", can="admin:images:write", body=ImagePatch, out=AdminImageOut)
def update(body, image_id):
    """Change an image. Only what is sent changes; facts of the file are managed by the system."""
    kit.say("The image is changed.")
    return held(catalog.update_image(catalog.get_image(image_id), **body))


def held(image):
    image.hypervisors = catalog.holders(image)
    return image
