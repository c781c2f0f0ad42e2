"""The health of the platform, its dashboard and its periodic jobs."""

from marshmallow import fields, validate

from panel.schemas.base import Out, Schema, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
NODE_CONDITIONS = ("up", "stale", "unknown", "down")
HEALTH_PROBLEMS = (
    "no_workers",
    "redis_unreachable",
    "slow_queue",
    "hypervisors",
    "faults",
    "late_deliveries",
    "missing_backups",
)


class NodeHeartbeatOut(Schema):
    id = fields.String(**describe("Hypervisor id.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "node-1"))
    status = fields.String(
        validate=validate.OneOf(NODE_CONDITIONS), **describe("`up`, `stale`, `unknown` or `down`.", "up")
    )
    seen_at = Time(allow_none=True, **describe("When it last responded.", EXAMPLE_TIME))


class HealthOut(Out):
    healthy = fields.Boolean(**describe("Whether there are no problems.", True))
    problems = fields.List(
        fields.String(validate=validate.OneOf(HEALTH_PROBLEMS)),
        **describe("What needs attention: " + ", ".join(f"`{name}`" for name in HEALTH_PROBLEMS) + ".", ["slow_queue"]),
    )
    workers = fields.Integer(
        allow_none=True, **describe("Number of live worker processes; null if Redis is unreachable.", 2)
    )
    tasks_queued = fields.Integer(**describe("Number of tasks that wait for a worker.", 0))
    tasks_running = fields.Integer(**describe("Number of running tasks.", 1))
    oldest_queued_at = Time(
        allow_none=True, **describe("When the task was queued that has waited longest.", EXAMPLE_TIME)
    )
    faults = fields.Integer(**describe("Tasks of the last hour that failed because of the platform.", 0))
    late_deliveries = fields.Integer(**describe("Number of webhook deliveries that are overdue.", 0))
    missing_backups = fields.Integer(**describe("Number of instances without a recent backup of their policy.", 0))
    hypervisors = fields.List(fields.Nested(NodeHeartbeatOut), **describe("All hypervisors, by name."))


class PeriodicJobOut(Schema):
    command = fields.String(**describe("Name of the job.", "worker.engine.purge.purge_expired"))
    interval = fields.Float(**describe("Seconds between two runs.", 60.0))
    runs_in = fields.String(
        validate=validate.OneOf(["scheduler", "worker"]), **describe("Process in which it runs.", "worker")
    )
    last_started_at = Time(**describe("When it was last started, or handed to a worker.", EXAMPLE_TIME))
    next_at = Time(**describe("When it is due next.", EXAMPLE_TIME))
    last_error = fields.String(
        allow_none=True,
        **describe(
            "Class of the error of the last start; null if there was none. Jobs in workers: `failed-jobs`.", None
        ),
    )


class PlatformInstancesOut(Out):
    total = fields.Integer(**describe("Number of instances.", 120))
    states = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        **describe("Number of instances in each state.", {"running": 118}),
    )


class PlatformDashboardOut(Out):
    customers = fields.Integer(**describe("Number of customers.", 40))
    instances = fields.Nested(PlatformInstancesOut, **describe("Instances of all customers."))
    hypervisors = fields.Dict(
        keys=fields.String(), values=fields.Integer(), **describe("Number of hypervisors in each status.", {"up": 3})
    )
    problems = HealthOut().fields["problems"]
    locations = fields.List(fields.Nested("LocationLoadOut"), **describe("Locations, by name."))


class LocationLoadOut(Out):
    id = fields.String(attribute="group.id", **describe("Hypervisor group id.", EXAMPLE_ID))
    name = fields.String(attribute="group.name", **describe("Name.", "fsn1"))
    hypervisors = fields.Integer(attribute="nodes", **describe("Number of hypervisors.", 3))
    instances = fields.Integer(**describe("Number of instances.", 120))
    cpu_cores = fields.Float(**describe("CPU cores that can be allocated, including overcommit.", 256.0))
    cpu_allocated = fields.Integer(**describe("Allocated CPU cores.", 180))
    ram = fields.Float(**describe("MiB of memory that can be allocated, including overcommit.", 524288.0))
    ram_allocated = fields.Integer(**describe("Allocated memory in MiB.", 262144))
    storage = fields.Float(**describe("GiB that can be allocated, including overcommit.", 10240.0))
    storage_allocated = fields.Integer(**describe("Allocated GiB.", 4096))
    addresses = fields.Integer(**describe("Public IPv4 addresses of enabled subnets.", 254))
    addresses_allocated = fields.Integer(**describe("Public IPv4 addresses that are assigned or reserved.", 130))
