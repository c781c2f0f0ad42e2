"""Self-provisioned instances. The account's settings determine how they are charged."""

from marshmallow import fields

from api import kit
from api.instances import user
from api.instances.actions import TASK_ID, destroy
from api.instances.customer import CREATED_MESSAGE
from panel.core.db import session
from panel.schemas.base import describe
from panel.schemas.instances import InstanceOut
from panel.schemas.resource_packs import PackedInstanceIn, PackOut
from panel.services import instances, resource_packs
from panel.services.instances.self_provisioning import create_from_pack

USED_FIELDS = kit.Schema.from_dict(
    {
        "instances": fields.Integer(**describe("Number of instances.", 2)),
        "cpu_cores": fields.Integer(**describe("CPU cores of these instances.", 4)),
        "ram": fields.Integer(**describe("Memory of these instances in MiB.", 4096)),
        "storage": fields.Integer(**describe("Disks of these instances in GiB.", 80)),
    },
    name="SelfProvisioned",
)


@user.post(
    "/self-provisioning/instances",
    op="self_provision",
    can="instances.create",
    body=PackedInstanceIn,
    out=kit.build_wrapped_schema("instance", InstanceOut),
)
def create(body):
    """Create an instance by self-provisioning.

    Works like the creation of a cloud service instance, with the same capacity errors. An account with resource packs
    creates the instance from one of them (`pack_id`, by default the first with enough capacity): it then has no price
    of its own. If the pack has not enough capacity, the request returns 422 `storage_not_sufficient`,
    `resources_not_sufficient`, `limit_reached`, `pack_elsewhere` or `pack_disabled`. A refused request creates nothing.
    """
    instance = create_from_pack(kit.get_current_access(), actor=kit.get_current_actor(), **body)
    return {"message": CREATED_MESSAGE, "instance": instance}


user.delete(
    "/self-provisioning/instances/<instance_id>",
    op="self_provisioned_delete",
    can="instances.delete",
    out=kit.build_result_schema(task_id=TASK_ID),
)(destroy)


@user.get(
    "/self-provisioning/resources",
    op="self_provisioned_resources",
    can="instances.view",
    out=kit.build_result_schema(
        resources=fields.Nested(USED_FIELDS, **describe("Total usage.")),
        packs=fields.List(fields.Nested(PackOut), **describe("The account's resource packs.")),
    ),
)
def resources():
    """Get the total usage of self-provisioned instances and the usage of each resource pack."""
    packs = session.scalars(resource_packs.with_usage(resource_packs.listing(kit.get_current_access()))).all()
    return {
        "message": None,
        "resources": instances.get_self_provisioned_totals(kit.get_current_access()),
        "packs": packs,
    }
