"""Addresses, reverse DNS names and traffic of an instance in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Hostname, In, Int, Out, Text, Time, describe
from panel.schemas.constants import OVERAGE_POLICIES, SUBNET_KINDS

ADDRESS_ACTIONS = ("add", "remove", "set-primary")


class AddressesIn(In):
    action = fields.String(required=True, validate=validate.OneOf(ADDRESS_ACTIONS), **describe("Action.", "add"))
    ips = fields.List(
        Text(maximum=45),
        load_default=(),
        validate=validate.Length(max=32),
        **describe(
            "Address ids or IP addresses. For `add`, only operators can select addresses; without a"
            " selection the next free ones are assigned.",
            ["203.0.113.11"],
        ),
    )
    family = fields.Integer(
        load_default=4, strict=True, validate=validate.OneOf((4, 6)), **describe("For `add`: IP version, 4 or 6.", 4)
    )
    kind = fields.String(
        load_default="public",
        validate=validate.OneOf(SUBNET_KINDS),
        **describe(
            "For `add`: `public`, `private` (IPv4) or `routed` (IPv6 prefixes). The last two need no `family`.",
            "public",
        ),
    )
    count = Int(1, 16, load_default=1, **describe("For `add`: number of addresses.", 1))


class ReverseName(Hostname):
    """A host name, or empty."""

    def deserialize(self, value, *args, **kwargs):
        return super().deserialize(None if value == "" else value, *args, **kwargs)


class ReverseNameIn(In):
    rdns = ReverseName(
        required=True,
        allow_none=True,
        **describe("Reverse DNS name; null or an empty string removes it.", "shop.example.com"),
    )


class MonthOut(Out):
    month = fields.String(**describe("Calendar month (UTC).", "2026-01"))
    received = fields.Integer(**describe("Received bytes.", 734003200))
    sent = fields.Integer(**describe("Sent bytes.", 104857600))


class BandwidthOut(MonthOut):
    starts_at = Time(**describe("Start of the billing period.", "2026-01-01T00:00:00.000Z"))
    ends_at = Time(
        **describe("Start of the next billing period, when the counters are reset.", "2026-02-01T00:00:00.000Z")
    )
    used_bandwidth = fields.Float(**describe("Traffic of this period in GB, both directions.", 0.84))
    bandwidth = fields.Integer(**describe("Included traffic per period in GB; 0 means unlimited.", 1000))
    overage = fields.String(
        validate=validate.OneOf(OVERAGE_POLICIES), **describe("What happens when the traffic is used up.", "network")
    )
    off = fields.String(
        allow_none=True,
        **describe("Why the network is disconnected: `traffic` or `operator`; null if it is connected.", None),
    )
    history = fields.List(fields.Nested(MonthOut), **describe("Earlier months, latest first."))


class BandwidthIn(In):
    bandwidth = Int(**describe("Monthly traffic in GB; 0 means unlimited.", 2000))
    port_speed = Int(0, 1_000_000, **describe("Port speed in Mbit/s per direction; 0 means unlimited.", 1000))
