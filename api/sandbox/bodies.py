"""The bodies that the SDKs send. Names are theirs."""

from marshmallow import ValidationError, fields, validate

from api.sandbox.kit import Body
from panel.schemas.base import Bool, Int, Text, describe
from panel.schemas.microvms import (
    MAX_TIMEOUT_SECONDS,
    EnvironmentVariables,
    Pairs,
    allow_out_field,
    deny_out_field,
)


def ensure_empty(value):
    if value:
        raise ValidationError("This panel does not offer it.")


def unsupported_field(description, example, **options):
    """Return a field that must be empty: ignoring it would do something else than what was asked for."""
    return fields.Raw(validate=ensure_empty, allow_none=True, **options, **describe(description, example))


def build_range_error(minimum):
    return f"Must be {minimum} to {MAX_TIMEOUT_SECONDS} seconds, which are {MAX_TIMEOUT_SECONDS // 86400} days."


def timeout_field(description="Seconds until the sandbox ends by itself.", **options):
    return Int(1, MAX_TIMEOUT_SECONDS, error=build_range_error(1), **options, **describe(description, 300))


class EgressIn(Body):
    """Where a sandbox may connect to: IPv4 addresses and networks, no names."""

    allow_out = allow_out_field(data_key="allowOut", load_default=(), allow_none=True)
    deny_out = deny_out_field(data_key="denyOut", load_default=(), allow_none=True)
    rules = unsupported_field("Rules for requests of the sandbox; not offered.", {})
    egress_proxy = unsupported_field("A proxy for the sandbox; not offered.", None, data_key="egressProxy")


class NetworkIn(EgressIn):
    allow_public = Bool(
        data_key="allowPublicTraffic",
        allow_none=True,
        validate=validate.Equal(True, error="Sandboxes without public traffic are not offered."),
        **describe("Whether its ports can be reached without a token.", True),
    )


class NetworkUpdate(EgressIn):
    """A new network configuration. Fields that are left out are cleared."""

    allow_internet_access = Bool(
        load_default=None,
        allow_none=True,
        **describe("Whether it may connect to the internet; absent: where the operator allows it.", True),
    )


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
    envs = EnvironmentVariables(
        data_key="envVars",
        load_default=dict,
        allow_none=True,
        **describe("Environment variables of its processes.", {"MODE": "test"}),
    )
    allow_internet_access = Bool(
        load_default=True,
        allow_none=True,
        **describe("Whether it may connect to the internet, where the operator allows it.", True),
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
        minimum=-(2**31),
        maximum=MAX_TIMEOUT_SECONDS,
        error=build_range_error(0),
        required=True,
        **describe("Seconds from now; 0 ends it.", 600),
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
