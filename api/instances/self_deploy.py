"""Installing an instance from an ISO, in both dialects."""

from marshmallow import ValidationError, validates_schema

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.customer import mine
from api.instances.suspension import WORK
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Image
from panel.schemas.base import Hostname, In, Text, about
from panel.schemas.catalog import ID
from panel.services import catalog, instances
from panel.services.instances.self_deploy import self_deploy

AN_IMAGE = "This is an image. Only an ISO can be booted here; deploy or reinstall installs an image."
BOOTS = "The instance boots the ISO, with a blank disk."


class SelfDeployIn(In):
    iso_id = Text(most=36, **about("The ISO to boot from.", ID))
    image_id = Text(
        most=36,
        **about("The same as `iso_id`: the id of an ISO. `deploy` and `reinstall` install images.", ID),
    )
    hostname = Hostname(**about("Host name; by default the instance's.", "shop.example.com"))

    @validates_schema
    def one(self, data, **_):
        if not data.get("iso_id") and not data.get("image_id"):
            raise ValidationError("Name the ISO.", "iso_id")


def begun(instance, body, account=None):
    field = "iso_id" if body.get("iso_id") else "image_id"
    named = {"iso_id": body[field], "field": field, "hostname": body.get("hostname")}
    refuse_image(body[field], field, account)
    return self_deploy(instance, account=account, actor=kit.actor(), **named)


def refuse_image(image_id, field, account):
    """Says what to do instead when the id is that of an image."""
    if session.scalar(catalog.images(account).where(Image.id == image_id).limit(1)):
        raise Invalid(AN_IMAGE, **{field: AN_IMAGE})


@user.post(
    "/instance/<instance_id>/self-deploy",
    op="self_deploy",
    can="instances.manage",
    body=SelfDeployIn,
    out=kit.done(task_id=TASK_ID),
)
def deploy(body, instance_id):
    """Boot an ISO with a blank disk, to install a system by hand.

    What is on the first disk is lost. The screen shows the installer; afterwards empty the drive, so that the disk is
    booted from. `iso_id` or `image_id` is the id of an ISO (`GET /isos`), not of an image: `deploy` and, on an instance
    that has a system, `reinstall` install images. Refused with `suspended`, `task_running`, `protection_enabled` (409),
    `iso_url_not_https` (422).
    """
    task = begun(mine(instance_id), body, kit.account())
    return {"message": BOOTS, "task_id": task.id}


@admin.post(
    "/instance/<instance_id>/selfdeploy", op="self_deploy", can="admin:instances:write", body=SelfDeployIn, out=WORK
)
def operate(body, instance_id):
    """Boot an ISO with a blank disk.

    What is on the first disk is lost. It takes the id of an ISO, not of an image. The instance boots the ISO first
    (`boot` becomes `cdrom,disk`). Refused (409) with `protection_enabled`, `suspended`, `task_running`,
    `rescue_active`, `already_active` or `has_snapshots`; 422 `iso_url_not_https` for an ISO that hypervisors cannot
    fetch.
    """
    task = begun(instances.get(instance_id), body)
    kit.say(BOOTS)
    return {"task_id": task.id}
