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
    """List the images that can be installed on an instance.

    The platform's and the account's own that are ready, need no more disk and memory than it has and, where it has
    secure boot, start with that. A deploy or reinstall refuses all others.
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
    """List the ISOs that an instance can boot to be installed from: those that a self-deploy takes."""
    get_own_instance(instance_id)
    return kit.paginate(deploy_options.select_isos(kit.get_current_access(), **query))
