"""Alert rules in the API."""

from marshmallow import fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Name, Number, Out, Patch, Time, describe
from panel.schemas.notification_channels import EXAMPLE_ID, EXAMPLE_TIME

METRIC_UNITS = {
    "cpu_pct": "%",
    "mem_pct": "%",
    "disk_pct": "%",
    "bandwidth_in": "Mbit/s",
    "bandwidth_out": "Mbit/s",
    "disk_read_bytes": "B/s",
    "disk_write_bytes": "B/s",
    "disk_read_iops": "IOPS",
    "disk_write_iops": "IOPS",
    "cpu": "%",
    "memory": "%",
}
"""The metrics that rules can watch, and their units. `cpu` and `memory` are other names of the first two."""

METRIC_LABELS = {
    "cpu_pct": message("CPU usage"),
    "mem_pct": message("Memory usage"),
    "disk_pct": message("Disk usage"),
    "bandwidth_in": message("Incoming traffic"),
    "bandwidth_out": message("Outgoing traffic"),
    "disk_read_bytes": message("Disk reads"),
    "disk_write_bytes": message("Disk writes"),
    "disk_read_iops": message("Disk read operations"),
    "disk_write_iops": message("Disk write operations"),
}
METRIC_ALIASES = {"cpu": "cpu_pct", "memory": "mem_pct"}

OPERATORS = ("gt", "lt", "gte", "lte", "eq")
MAX_SECONDS = 7 * 86400
"""Maximum of `duration` and `reminder_interval`."""

MAX_THRESHOLD = 1e15
MAX_RULE_CHANNELS = 20

RESOURCE_TYPE_MESSAGE = message("Alert rules can only watch instances so far: {choices}.", choices="instance")
METRIC_MESSAGE = message("Unknown metric. Choose one of: {choices}.", choices=", ".join(METRIC_UNITS))

THRESHOLD_MESSAGE = message("This number is too large or too small.")

NAME = describe("Name of the rule.", "CPU too high")
RESOURCE_TYPE = describe("Type of the resources to watch. Other types are refused until they exist.", "instance")
RESOURCE_ID = describe("Id of the resource to watch; null for all of the type.", EXAMPLE_ID)
METRIC = describe(
    "Metric to compare: the average of the last minute. "
    + ", ".join(f"`{name}` ({unit})" for name, unit in METRIC_UNITS.items())
    + ". `disk_pct` is how full all file systems are together; it needs the guest agent, which reports every "
    "5 minutes.",
    "cpu_pct",
)
OPERATOR = describe("How the metric is compared with the threshold.", "gt")
THRESHOLD = describe("Threshold, in the unit of the metric.", 90)
DURATION = describe(
    "Seconds for which all values must call for a change before the status changes, in both directions.", 300
)
REMINDER = describe("Seconds between two reminders while the alert fires; 0 for none.", 3600)
CHANNEL_IDS = describe("Ids of the notification channels. A change replaces all; an empty list removes them.", [])
ENABLED = describe("Whether the rule is evaluated.", True)


def make_fields(required):
    """Return the fields of a request. With `required`, those of a new rule with their defaults."""

    def default(value):
        return {"load_default": value} if required else {}

    return {
        "name": Name(required=required, **NAME),
        "resource_type": fields.String(
            required=required, validate=validate.OneOf(("instance",), error=RESOURCE_TYPE_MESSAGE), **RESOURCE_TYPE
        ),
        "resource_id": fields.UUID(allow_none=True, **default(None), **RESOURCE_ID),
        "metric": fields.String(
            required=required, validate=validate.OneOf(tuple(METRIC_UNITS), error=METRIC_MESSAGE), **METRIC
        ),
        "operator": fields.String(required=required, validate=validate.OneOf(OPERATORS), **OPERATOR),
        "threshold": Number(-MAX_THRESHOLD, MAX_THRESHOLD, error=THRESHOLD_MESSAGE, required=required, **THRESHOLD),
        "duration": Int(0, MAX_SECONDS, **default(0), **DURATION),
        "reminder_interval": Int(0, MAX_SECONDS, **default(0), **REMINDER),
        "channel_ids": fields.List(
            fields.UUID(), validate=validate.Length(max=MAX_RULE_CHANNELS), **default(list), **CHANNEL_IDS
        ),
        "enabled": Bool(**default(True), **ENABLED),
    }


AlertRuleIn = type("AlertRuleIn", (In,), {"malformed": 422, **make_fields(required=True)})
AlertRulePatch = type("AlertRulePatch", (Patch,), {"malformed": 422, **make_fields(required=False)})


class AlertChannelOut(Out):
    id = fields.String(**describe("Id of the channel.", EXAMPLE_ID))
    name = fields.String(**describe("Name of the channel.", "On call"))
    type = fields.String(**describe("Type of the channel.", "slack"))


class AlertRuleOut(Out):
    id = fields.String(**describe("Id of the rule.", EXAMPLE_ID))
    name = fields.String(**NAME)
    resource_type = fields.String(**RESOURCE_TYPE)
    resource_id = fields.String(allow_none=True, **RESOURCE_ID)
    metric = fields.String(**METRIC)
    operator = fields.String(**OPERATOR)
    threshold = fields.Float(**THRESHOLD)
    duration = fields.Integer(**DURATION)
    reminder_interval = fields.Integer(**REMINDER)
    enabled = fields.Boolean(**ENABLED)
    status = fields.String(**describe("`firing` while one of the resources is beyond the threshold, else `ok`.", "ok"))
    no_data = fields.Boolean(
        **describe("Whether one of the resources has no current values. Its status stays as it was.", False)
    )
    acknowledged = fields.Boolean(**describe("Whether everything that fires was acknowledged.", False))
    channels = fields.List(fields.Nested(AlertChannelOut), **describe("Channels that get notifications."))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class AlertEventOut(Out):
    id = fields.String(**describe("Id of the entry.", EXAMPLE_ID))
    kind = fields.String(**describe("`firing`, `resolved`, `reminder` or `acknowledged`.", "firing"))
    resource_id = fields.String(**describe("Id of the resource.", EXAMPLE_ID))
    resource_name = fields.String(**describe("Name of the resource at that time.", "web-1"))
    value = fields.Float(allow_none=True, **describe("Value of the metric at that time, or null.", 97.5))
    actor = fields.String(allow_none=True, **describe("Who acknowledged it, or null.", None))
    created_at = Time(**describe("When it happened.", EXAMPLE_TIME))
