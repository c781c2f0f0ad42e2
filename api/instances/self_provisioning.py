"""Instances of the customer's own provisioning. How they are charged is the account's affair, not theirs."""

from marshmallow import fields

from api import kit
from api.instances import user
from api.instances.actions import TASK_ID, destroy
from api.instances.rows import CREATED
from panel.schemas.base import about
from panel.schemas.instances import InstanceIn, InstanceOut
from panel.services import instances

USED = kit.Schema.from_dict(
    {
        "instances": fields.Integer(**about("How many there are.", 2)),
        "cpu_cores": fields.Integer(**about("Their processor cores.", 4)),
        "ram": fields.Integer(**about("Their memory, MiB.", 4096)),
        "storage": fields.Integer(**about("Their disks, GiB.", 80)),
    },
    name="SelfProvisioned",
)


@user.post(
    "/self-provisioning/instances",
    op="self_provision",
    can="instances.create",
    body=InstanceIn,
    out=kit.keyed("instance", InstanceOut),
)
def create(body):
    """Create an instance by self-provisioning.

    As the create of the cloud service, with the same capacity refusals. Nothing is kept of a refused request.
    """
    made = instances.create(kit.account(), actor=kit.actor(), billing_mode="self_provisioned", **body)
    return {"message": CREATED, "instance": made}


user.delete(
    "/self-provisioning/instances/<instance_id>",
    op="self_provisioned_delete",
    can="instances.delete",
    out=kit.done(task_id=TASK_ID),
)(destroy)


@user.get(
    "/self-provisioning/resources",
    op="self_provisioned_resources",
    can="instances.view",
    out=kit.keyed("resources", USED),
)
def resources():
    """Show what self-provisioned instances use in all."""
    return {"message": None, "resources": instances.self_provisioned(kit.account())}
