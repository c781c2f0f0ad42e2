"""The images and options for a deploy of an instance."""

from marshmallow import fields, validate

from api import kit
from api.instances import user
from api.instances.customer import get_own_instance
from panel.schemas.base import PageQuery
from panel.schemas.catalog import ImageOut
from panel.schemas.isos import IsoOut
from panel.services.instances import deploy_options


class ChoiceQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})


@user.get(
    "/instance/<instance_id>/deploy/images",
    op="deploy_images",
    can="instances.view",
    query=ChoiceQuery,
    out=kit.build_page_schema(ImageOut),
)
def deploy_images(query, instance_id):
    """List the images that can be deployed to an instance.

    Contains the platform's and your own images that are available, fit the disk and memory of the instance and, if it
    uses secure boot, support it. Deploy and reinstall refuse all others.
    """
    return kit.paginate(deploy_options.select_images(get_own_instance(instance_id), kit.get_current_access(), **query))


@user.get(
    "/instance/<instance_id>/deploy/iso",
    op="deploy_isos",
    can="instances.view",
    query=ChoiceQuery,
    out=kit.build_page_schema(IsoOut),
)
def deploy_isos(query, instance_id):
    """List the ISOs from which an instance can be installed (self-deploy)."""
    get_own_instance(instance_id)
    return kit.paginate(deploy_options.select_isos(kit.get_current_access(), **query))
