"""The bodies that the SDKs send. Names are theirs."""

import ipaddress

from marshmallow import ValidationError, fields, validate

from api.sandbox.kit import Body
from panel.schemas.base import Bool, Int, Text, describe
from panel.schemas.microvms import MAX_TIMEOUT_SECONDS, Pairs

MAX_PLACES = 1000
"""The most entries of a network list."""


class NetworkText(fields.String):
    """An IP address or a network in CIDR notation."""

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            return str(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise ValidationError("Only IP addresses and networks in CIDR notation are supported.") from None


def networks_field(name, description):
    return fields.List(
        NetworkText(),
        data_key=name,
        load_default=(),
        allow_none=True,
        validate=validate.Length(max=MAX_PLACES),
        **describe(description, ["10.0.0.0/8"]),
    )


def ensure_empty(value):
    if value:
        raise ValidationError("This panel does not offer it.")


def unsupported_field(description, example, **options):
    """Return a field that must be empty: ignoring it would do something else than what was asked for."""
    return fields.Raw(validate=ensure_empty, allow_none=True, **options, **describe(description, example))


def timeout_field(description="Seconds until the sandbox ends by itself.", **options):
    return Int(1, MAX_TIMEOUT_SECONDS, **options, **describe(description, 300))


class NetworkIn(Body):
    allow_out = networks_field("allowOut", "Where the sandbox may connect to.")
    deny_out = networks_field("denyOut", "Where it may not connect to.")
    allow_public = Bool(
        data_key="allowPublicTraffic",
        allow_none=True,
        validate=validate.Equal(True, error="Sandboxes without public traffic are not offered."),
        **describe("Whether its ports can be reached without a token.", True),
    )
    rules = unsupported_field("Rules for requests of the sandbox; not offered.", {})
    egress_proxy = unsupported_field("A proxy for the sandbox; not offered.", None, data_key="egressProxy")


class NewSandbox(Body):
    template_id = Text(
        data_key="templateID", required=True, minimum=1, **describe("Id, name or alias of a micro VM image.", "base")
    )
    timeout = timeout_field(load_default=None, allow_none=True)
    metadata = Pairs(
        load_default=dict,
        allow_none=True,
        **describe("Texts stored with it. `location_id` chooses the location.", {"run": "17"}),
    )
    envs = Pairs(
        data_key="envVars",
        load_default=dict,
        allow_none=True,
        **describe("Environment variables of its processes.", {"MODE": "test"}),
    )
    allow_internet_access = Bool(
        load_default=True,
        allow_none=True,
        **describe("Whether it may connect to the internet. Stored; no sandbox has a network interface yet.", True),
    )
    auto_pause = Bool(
        data_key="autoPause",
        load_default=None,
        allow_none=True,
        **describe("Whether it pauses at its end, instead of ending; else as the account's settings say.", False),
    )
    auto_pause_memory = Bool(
        data_key="autoPauseMemory", load_default=True, **describe("Whether that pause keeps its memory.", True)
    )
    network = fields.Nested(NetworkIn, load_default=None, allow_none=True, **describe("Its network."))
    volume_mounts = unsupported_field("Volumes; not offered.", [], data_key="volumeMounts")
    mcp = unsupported_field("Servers of a model's tools; not offered.", {})


class TimeoutIn(Body):
    timeout = Int(
        minimum=-(2**31), maximum=MAX_TIMEOUT_SECONDS, required=True, **describe("Seconds from now; 0 ends it.", 600)
    )


class ConnectIn(Body):
    timeout = timeout_field(load_default=None, allow_none=True)


class ResumeIn(Body):
    timeout = timeout_field(load_default=15, allow_none=True)
    auto_pause = Bool(
        data_key="autoPause", load_default=None, allow_none=True, **describe("Whether it pauses at its end.", False)
    )


class RefreshIn(Body):
    duration = timeout_field("Seconds from now to which its end moves, if it is earlier.", load_default=60)
