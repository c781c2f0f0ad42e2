"""Addresses, reverse DNS names and traffic of an instance in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Hostname, In, Int, Out, Text, Time, describe
from panel.schemas.constants import OVERAGE_POLICIES, SUBNET_KINDS

ADDRESS_ACTIONS = ("add", "remove", "set-primary")


class AddressesIn(In):
    action = fields.String(required=True, validate=validate.OneOf(ADDRESS_ACTIONS), **describe("What to do.", "add"))
    ips = fields.List(
        Text(maximum=45),
        load_default=(),
        validate=validate.Length(max=32),
        **describe(
            "Addresses, by id or as they are written. For `add` only operators may name some; else the next free ones"
            " are taken.",
            ["203.0.113.11"],
        ),
    )
    family = fields.Integer(
        load_default=4, strict=True, validate=validate.OneOf((4, 6)), **describe("For `add`: 4 or 6.", 4)
    )
    kind = fields.String(
        load_default="public",
        validate=validate.OneOf(SUBNET_KINDS),
        **describe(
            "For `add`: `public`, or `private` (IPv4) or `routed` (IPv6 prefixes), which need no family.", "public"
        ),
    )
    count = Int(1, 16, load_default=1, **describe("For `add`: how many.", 1))


class ReverseName(Hostname):
    """A host name, or empty."""

    def deserialize(self, value, *args, **kwargs):
        return super().deserialize(None if value == "" else value, *args, **kwargs)


class ReverseNameIn(In):
    rdns = ReverseName(
        required=True, allow_none=True, **describe("The name; null or an empty text for none.", "shop.example.com")
    )


class MonthOut(Out):
    month = fields.String(**describe("The calendar month (UTC).", "2026-01"))
    received = fields.Integer(**describe("Bytes that the guest received.", 734003200))
    sent = fields.Integer(**describe("Bytes that the guest sent.", 104857600))


class BandwidthOut(MonthOut):
    starts_at = Time(**describe("When the billing period began.", "2026-01-01T00:00:00.000Z"))
    ends_at = Time(**describe("When the next one begins, and the counters begin anew.", "2026-02-01T00:00:00.000Z"))
    used_bandwidth = fields.Float(**describe("GB of this period, both ways.", 0.84))
    bandwidth = fields.Integer(**describe("GB that may pass in a period; 0 is unlimited.", 1000))
    overage = fields.String(
        validate=validate.OneOf(OVERAGE_POLICIES), **describe("What happens when they are used up.", "network")
    )
    off = fields.String(
        allow_none=True, **describe("Why the network is cut off: `traffic` or `operator`; null while it is not.", None)
    )
    history = fields.List(fields.Nested(MonthOut), **describe("Earlier months, the latest first."))


class BandwidthIn(In):
    bandwidth = Int(**describe("GB of traffic a month; 0 is unlimited.", 2000))
    port_speed = Int(0, 1_000_000, **describe("Mbit/s each way; 0 is unlimited.", 1000))
