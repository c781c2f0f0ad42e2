"""Installing an instance from an ISO, in both dialects."""

from marshmallow import ValidationError, validates_schema

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import get_own_instance
from api.instances.suspension import OPTIONAL_TASK
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Image
from panel.schemas.base import Hostname, In, Text, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.services import catalog, instances
from panel.services.instances.self_deploy import self_deploy

NOT_AN_ISO_MESSAGE = "This is an image, not an ISO. Use deploy or reinstall to install an image."
BOOTING_ISO_MESSAGE = "Installation requested. The instance boots the ISO with a blank disk."


class SelfDeployIn(In):
    iso_id = Text(maximum=36, **describe("The ISO to boot from.", EXAMPLE_ID))
    image_id = Text(
        maximum=36,
        **describe("Same as `iso_id`: the id of an ISO. Use `deploy` or `reinstall` for images.", EXAMPLE_ID),
    )
    hostname = Hostname(**describe("Host name. Defaults to the instance's.", "shop.example.com"))

    @validates_schema
    def validate_iso_is_named(self, data, **_):
        if not data.get("iso_id") and not data.get("image_id"):
            raise ValidationError("Choose an ISO.", "iso_id")


def start_self_deploy(instance, body, account=None):
    field = "iso_id" if body.get("iso_id") else "image_id"
    arguments = {"iso_id": body[field], "error_field": field, "hostname": body.get("hostname")}
    ensure_not_image(body[field], field, account)
    return self_deploy(instance, account=account, actor=kit.get_current_actor(), **arguments)


def ensure_not_image(image_id, error_field, account):
    """Raise Invalid with the right operation when the id is an image's."""
    if session.scalar(catalog.select_images(account).where(Image.id == image_id).limit(1)):
        raise Invalid(NOT_AN_ISO_MESSAGE, **{error_field: NOT_AN_ISO_MESSAGE})


@user.post(
    "/instance/<instance_id>/self-deploy",
    op="self_deploy",
    can="instances.manage",
    body=SelfDeployIn,
    out=kit.build_result_schema(task_id=TASK_ID),
)
def deploy(body, instance_id):
    """Install an instance manually from an ISO.

    The instance boots the ISO with a blank disk: all data on the first disk is lost. Use the VNC console for the
    installation and eject the ISO afterwards to boot from the disk. `iso_id` or `image_id` is the id of an ISO (`GET
    /isos`), not of an image; use `deploy` or, if the instance has an operating system, `reinstall` for images. Returns
    409 `suspended`, `task_running` or `protection_enabled`, and 422 `iso_url_not_https`.
    """
    task = start_self_deploy(get_own_instance(instance_id), body, kit.get_current_access())
    return {"message": BOOTING_ISO_MESSAGE, "task_id": task.id}


@admin.post(
    "/instance/<instance_id>/selfdeploy",
    op="self_deploy",
    can="admin:instances:write",
    body=SelfDeployIn,
    out=OPTIONAL_TASK,
)
def admin_deploy(body, instance_id):
    """Install an instance manually from an ISO.

    The instance boots the ISO with a blank disk (`boot` becomes `cdrom,disk`): all data on the first disk is lost. The
    id must be that of an ISO, not of an image. Returns 409 `protection_enabled`, `suspended`, `task_running`,
    `rescue_active`, `already_active` or `has_snapshots`, and 422 `iso_url_not_https` for an ISO that hypervisors cannot
    download.
    """
    task = start_self_deploy(instances.get(instance_id), body)
    kit.set_message(BOOTING_ISO_MESSAGE)
    return {"task_id": task.id}
