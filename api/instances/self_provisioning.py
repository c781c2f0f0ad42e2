"""Instances by self-provisioning. The account's settings decide how they are charged."""

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
        "instances": fields.Integer(**describe("How many there are.", 2)),
        "cpu_cores": fields.Integer(**describe("Their processor cores.", 4)),
        "ram": fields.Integer(**describe("Their memory, MiB.", 4096)),
        "storage": fields.Integer(**describe("Their disks, GiB.", 80)),
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

    As the create of the cloud service, with the same capacity refusals. An account that has resource packs makes it
    from one of them (`pack_id`, by default the first with room): then it costs nothing by itself, and what the pack
    lacks is refused in the same way, with 422 and `storage_not_sufficient`, `resources_not_sufficient`,
    `limit_reached`, `pack_elsewhere` or `pack_disabled`. Nothing is kept of a refused request.
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
        resources=fields.Nested(USED_FIELDS, **describe("What they use in all.")),
        packs=fields.List(fields.Nested(PackOut), **describe("The account's resource packs.")),
    ),
)
def resources():
    """Show what self-provisioned instances use in all, and each resource pack with what of it is in use."""
    packs = session.scalars(resource_packs.with_usage(resource_packs.listing(kit.get_current_access()))).all()
    return {
        "message": None,
        "resources": instances.get_self_provisioned_totals(kit.get_current_access()),
        "packs": packs,
    }
