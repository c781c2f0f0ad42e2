"""What is measured of a customer's resources now."""

from marshmallow import fields, validate

from panel.schemas.base import Out, Schema, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import INSTANCE_STATES
from panel.schemas.metrics import METRIC_DESCRIPTIONS, metric_field


class MonitoredResourceOut(Schema):
    type = fields.String(validate=validate.OneOf(["instance"]), **describe("Type of the resource.", "instance"))
    id = fields.String(**describe("Id of the resource.", EXAMPLE_ID))
    name = fields.String(**describe("Display name.", "Shop front"))
    state = fields.String(validate=validate.OneOf(INSTANCE_STATES), **describe("Current state.", "running"))
    measured_at = Time(
        allow_none=True,
        **describe("When the values were measured; null if nothing was in the last minute.", "2026-01-02T03:04:00Z"),
    )
    firing = fields.Integer(**describe("Number of alerts that fire for the resource.", 0))

    class Meta:
        include = {name: metric_field(name) for name in METRIC_DESCRIPTIONS}


class MonitoringSummaryOut(Out):
    resources = fields.Integer(**describe("Number of monitored resources: the instances.", 3))
    resources_running = fields.Integer(**describe("Number of these that are running.", 3))
    alert_rules = fields.Integer(**describe("Number of alert rules.", 2))
    alert_rules_enabled = fields.Integer(**describe("Number of alert rules that are evaluated.", 2))
    firing = fields.Integer(**describe("Number of alerts that fire: each rule counts once per resource.", 0))
    channels = fields.Integer(**describe("Number of notification channels.", 1))
    channels_disabled = fields.Integer(**describe("Number of channels that get no notifications.", 0))
