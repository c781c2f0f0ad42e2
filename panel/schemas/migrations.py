"""Migrations of machines in the API."""

from marshmallow import INCLUDE, Schema, fields, validate

from panel.schemas.base import Bool, In, Number, Out, PageQuery, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

MIGRATION_STATUSES = ("active", "completed", "failed", "cancelled")


class MigrationOut(Out):
    id = fields.String(**describe("Migration id.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance.", EXAMPLE_ID))
    instance_name = fields.String(**describe("Its name.", "h10000001"))
    source_hypervisor_id = fields.String(
        attribute="source_id", allow_none=True, **describe("Where it comes from.", EXAMPLE_ID)
    )
    source_hypervisor = fields.String(attribute="source_name", **describe("That hypervisor's name.", "node-1"))
    target_hypervisor_id = fields.String(
        attribute="target_id", allow_none=True, **describe("Where it goes.", EXAMPLE_ID)
    )
    target_hypervisor = fields.String(attribute="target_name", **describe("That hypervisor's name.", "node-2"))
    kind = fields.String(
        validate=validate.OneOf(("live", "cold")), **describe("`live`: the guest runs on meanwhile.", "live")
    )
    status = fields.String(validate=validate.OneOf(MIGRATION_STATUSES), **describe("Where it stands.", "completed"))
    progress = fields.Integer(**describe("Percent done, 0 to 100.", 100))
    stage = fields.String(**describe("What it is doing, in words.", "Migrating the machine"))
    bytes_done = fields.Integer(allow_none=True, **describe("Bytes moved so far.", 1048576))
    bytes_total = fields.Integer(allow_none=True, **describe("Bytes to move.", 20971520))
    error = fields.String(allow_none=True, **describe("Why it failed.", None))
    task_id = fields.String(allow_none=True, **describe("The task that carries it out.", EXAMPLE_ID))
    parent_task_id = fields.String(allow_none=True, **describe("The evacuation it belongs to.", None))
    cleanup_pending = fields.Boolean(
        **describe("Whether disks are still on the source that have to be removed.", False)
    )
    created_at = Time(**describe("When it was asked for.", "2026-01-02T03:04:05.678Z"))
    finished_at = Time(allow_none=True, **describe("When it ended.", "2026-01-02T03:04:05.678Z"))


class MigrationQuery(PageQuery):
    status = fields.String(
        validate=validate.OneOf(MIGRATION_STATUSES), metadata={"description": "Only those with this status."}
    )
    instance_id = fields.String(validate=validate.Length(max=36), metadata={"description": "Only of this instance."})


class MigrationIn(In):
    instance_id = Text(maximum=36, required=True, **describe("The instance.", EXAMPLE_ID))
    hypervisor_id = Text(maximum=36, **describe("Where it goes; by default where most room is.", EXAMPLE_ID))
    online = Bool(**describe("True: only if the guest runs on meanwhile. False: only if the instance is off.", True))


class MoveIn(In):
    """The request of clients that move machines within a cluster. Options that the panel decides itself are ignored."""

    target_node = Text(minimum=1, required=True, **describe("The target's id or name.", "node-2"))
    online = Bool(**describe("True: only if the guest runs on meanwhile. False: only if the instance is off.", True))
    with_local_disks = Bool(**describe("Accepted; disks always move with the machine.", True))
    with_conntrack_state = Bool(**describe("Accepted and ignored.", False))
    targetstorage = Text(**describe("Accepted and ignored: the target's roomiest storage is taken.", "default"))
    bwlimit = Number(**describe("Accepted and ignored.", 0))
    migration_network = Text(**describe("Accepted and ignored.", "10.0.0.0/24"))


class PrecheckQuery(Schema):
    class Meta:
        unknown = INCLUDE

    target_node = fields.String(validate=validate.Length(max=64), metadata={"description": "A target's id or name."})


class Check(Out):
    name = fields.String(**describe("What was looked at.", "room"))
    ok = fields.Boolean(**describe("Whether it is well.", True))
    message = fields.String(allow_none=True, **describe("What is wrong.", None))


class Target(Out):
    hypervisor_id = fields.String(**describe("Hypervisor id.", EXAMPLE_ID))
    name = fields.String(**describe("Its name.", "node-2"))
    ok = fields.Boolean(**describe("Whether the machine can move there.", True))
    message = fields.String(allow_none=True, **describe("Why it cannot.", None))


class PrecheckOut(Out):
    ok = fields.Boolean(**describe("Whether the machine can move.", True))
    kind = fields.String(**describe("`live` when it runs, else `cold`.", "live"))
    checks = fields.List(fields.Nested(Check), **describe("What was looked at, for the target that was named."))
    targets = fields.List(fields.Nested(Target), **describe("The other hypervisors of the location."))


class Moving(Out):
    task_id = fields.String(**describe("The task that carries it out.", EXAMPLE_ID))
    migration_id = fields.String(**describe("The migration.", EXAMPLE_ID))


class Evacuation(Out):
    task_id = fields.String(**describe("The task that follows the moves.", EXAMPLE_ID))
    refused = fields.Dict(
        keys=fields.String(), values=fields.String(), **describe("Machines that cannot be moved, with the reason.", {})
    )
