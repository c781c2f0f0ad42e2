"""Migrations of instances in the API."""

from marshmallow import INCLUDE, Schema, fields, validate

from panel.schemas.base import Bool, In, Number, Out, PageQuery, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

MIGRATION_STATUSES = ("active", "completed", "failed", "cancelled")


class MigrationOut(Out):
    id = fields.String(**describe("Migration id.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance.", EXAMPLE_ID))
    instance_name = fields.String(**describe("Name.", "h10000001"))
    source_hypervisor_id = fields.String(
        attribute="source_id", allow_none=True, **describe("Source hypervisor id.", EXAMPLE_ID)
    )
    source_hypervisor = fields.String(attribute="source_name", **describe("Name of the hypervisor.", "node-1"))
    target_hypervisor_id = fields.String(
        attribute="target_id", allow_none=True, **describe("Target hypervisor id.", EXAMPLE_ID)
    )
    target_hypervisor = fields.String(attribute="target_name", **describe("Name of the hypervisor.", "node-2"))
    kind = fields.String(
        validate=validate.OneOf(("live", "cold")), **describe("`live` (the guest keeps running) or `cold`.", "live")
    )
    status = fields.String(validate=validate.OneOf(MIGRATION_STATUSES), **describe("Current status.", "completed"))
    progress = fields.Integer(**describe("Percent done, 0 to 100.", 100))
    stage = fields.String(**describe("Current stage.", "Migrating the machine"))
    bytes_done = fields.Integer(allow_none=True, **describe("Bytes transferred so far.", 1048576))
    bytes_total = fields.Integer(allow_none=True, **describe("Bytes to transfer.", 20971520))
    error = fields.String(allow_none=True, **describe("Error message.", None))
    task_id = fields.String(allow_none=True, **describe("The task.", EXAMPLE_ID))
    parent_task_id = fields.String(allow_none=True, **describe("The evacuation task it belongs to.", None))
    cleanup_pending = fields.Boolean(**describe("Whether disks on the source still have to be deleted.", False))
    created_at = Time(**describe("When it was requested.", "2026-01-02T03:04:05.678Z"))
    finished_at = Time(allow_none=True, **describe("When it ended.", "2026-01-02T03:04:05.678Z"))


class MigrationQuery(PageQuery):
    status = fields.String(
        validate=validate.OneOf(MIGRATION_STATUSES), metadata={"description": "Only migrations with this status."}
    )
    instance_id = fields.String(
        validate=validate.Length(max=36), metadata={"description": "Only migrations of this instance."}
    )


class MigrationIn(In):
    instance_id = Text(maximum=36, required=True, **describe("The instance.", EXAMPLE_ID))
    hypervisor_id = Text(
        maximum=36, **describe("Target hypervisor id. Defaults to the one with the most free capacity.", EXAMPLE_ID)
    )
    online = Bool(**describe("If true, only migrate a running instance; if false, only a stopped one.", True))


class MoveIn(In):
    """The request of clients that migrate within a cluster. Options that the panel decides itself are ignored."""

    target_node = Text(minimum=1, required=True, **describe("Id or name of the target hypervisor.", "node-2"))
    online = Bool(**describe("If true, only migrate a running instance; if false, only a stopped one.", True))
    with_local_disks = Bool(**describe("Accepted for compatibility: disks are always migrated.", True))
    with_conntrack_state = Bool(**describe("Accepted for compatibility and ignored.", False))
    targetstorage = Text(
        **describe("Accepted for compatibility and ignored: the storage with the most free space is used.", "default")
    )
    bwlimit = Number(**describe("Accepted for compatibility and ignored.", 0))
    migration_network = Text(**describe("Accepted for compatibility and ignored.", "10.0.0.0/24"))


class PrecheckQuery(Schema):
    class Meta:
        unknown = INCLUDE

    target_node = fields.String(
        validate=validate.Length(max=64), metadata={"description": "Id or name of a target hypervisor."}
    )


class Check(Out):
    name = fields.String(**describe("Name of the check.", "room"))
    ok = fields.Boolean(**describe("Whether the check passed.", True))
    message = fields.String(allow_none=True, **describe("Reason if the check failed.", None))


class Target(Out):
    hypervisor_id = fields.String(**describe("Hypervisor id.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "node-2"))
    ok = fields.Boolean(**describe("Whether the instance can be migrated there.", True))
    message = fields.String(allow_none=True, **describe("Reason if not.", None))


class PrecheckOut(Out):
    ok = fields.Boolean(**describe("Whether the instance can be migrated.", True))
    kind = fields.String(**describe("`live` if the instance is running, otherwise `cold`.", "live"))
    checks = fields.List(fields.Nested(Check), **describe("Checks for the requested target."))
    targets = fields.List(fields.Nested(Target), **describe("The other hypervisors of the location."))


class Moving(Out):
    task_id = fields.String(**describe("The task.", EXAMPLE_ID))
    migration_id = fields.String(**describe("The migration.", EXAMPLE_ID))


class Evacuation(Out):
    task_id = fields.String(**describe("The evacuation task.", EXAMPLE_ID))
    refused = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        **describe("Instances that cannot be migrated, with the reason.", {}),
    )
