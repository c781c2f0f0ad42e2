"""Live-snapshot sessions in the API."""

from marshmallow import fields, validate

from panel.schemas.base import In, Out, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
FORGE_STATUSES = ("creating", "active", "committing", "committed", "discarding", "discarded", "failed")


class ForgeOut(Out):
    """One live-snapshot session."""

    id = fields.String(**describe("Session id.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance.", EXAMPLE_ID))
    status = fields.String(validate=validate.OneOf(FORGE_STATUSES), **describe("Current status.", "active"))
    disks = fields.Raw(
        metadata={
            "description": "Disks of the session.",
            "example": [{"id": EXAMPLE_ID, "name": "h10000001-0.qcow2", "size": 20}],
            "type": "array",
            "items": {"type": "object"},
        }
    )
    error = fields.String(allow_none=True, **describe("Error message, or null.", None))
    created_at = Time(**describe("When it was started.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))
    ended_at = Time(allow_none=True, **describe("When it was committed, discarded or failed.", None))


class ForgeState(Out):
    active = fields.Boolean(**describe("Whether changes are currently stored separately from the disks.", True))
    session = fields.Nested(ForgeOut, allow_none=True, **describe("The latest session; null if there was none."))


class ForgeIn(In):
    disk_ids = fields.List(
        Text(maximum=36),
        load_default=None,
        allow_none=True,
        validate=validate.Length(max=64),
        **describe("Ids of the disks. Defaults to the first one.", [EXAMPLE_ID]),
    )
