"""Images by distribution, for operators."""

from itertools import groupby
from operator import attrgetter

from marshmallow import Schema, fields, validate

from api import kit
from panel.core.db import session
from panel.schemas.base import describe
from panel.schemas.catalog import ImageOut
from panel.schemas.constants import IMAGE_PURPOSES
from panel.schemas.images import AdminImageRow
from panel.services import catalog, instances

admin = kit.Admin("image_group", __name__, description="Images by distribution")


def group_schema(row, name):
    declared = {
        "distro": fields.String(**describe("The distribution.", "Debian")),
        "images": fields.List(fields.Nested(row), **describe("Its images.")),
    }
    return Schema.from_dict(declared, name=name)(many=True)


def group_by_distro(images):
    return [{"distro": distro, "images": list(members)} for distro, members in groupby(images, attrgetter("distro"))]


class Purpose(Schema):
    purpose = fields.String(
        validate=validate.OneOf(IMAGE_PURPOSES), metadata={"description": "Only images for this purpose."}
    )


@admin.get(
    "/images/grouped-by-distro",
    op="list",
    can="admin:images:read",
    query=Purpose,
    out=group_schema(AdminImageRow, "AdminImageGroup"),
)
def listing(query):
    """List all images by distribution, including custom images.

    The list is complete and has no pages. Filter with `purpose`; an unknown value returns 422.
    """
    return group_by_distro(session.scalars(catalog.select_images(**query)))


@admin.get(
    "/instance/<instance_id>/images",
    op="of_instance",
    can="admin:instances:read",
    out=group_schema(ImageOut, "FittingImageGroup"),
)
def list_fitting(instance_id):
    """List the images that can be installed on an instance, by distribution.

    Contains the images that the owner can select and whose disk and memory requirements the plan meets. Returns 404 if
    the instance does not exist.
    """
    instance = instances.get(instance_id)
    images = session.scalars(catalog.select_images(instance.account))
    return group_by_distro(image for image in images if instances.image_error(instance, image) is None)
