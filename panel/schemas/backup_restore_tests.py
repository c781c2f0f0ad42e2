"""Restore tests in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Out, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"


class BackupRestoreTestOut(Out):
    id = fields.String(**describe("Id of the test.", EXAMPLE_ID))
    backup_id = fields.String(**describe("The backup.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance of the backup.", EXAMPLE_ID))
    status = fields.String(
        validate=validate.OneOf(("running", "passed", "failed", "aborted")),
        **describe("`aborted`: the platform could not carry it out.", "passed"),
    )
    evidence = fields.String(
        allow_none=True,
        validate=validate.OneOf(("agent", "screen")),
        **describe("Why it passed: the guest agent answered, or without one the screen changed.", "agent"),
    )
    error = fields.String(allow_none=True, **describe("Why it did not pass.", None))
    boot_seconds = fields.Integer(allow_none=True, **describe("Seconds from the start to the evidence.", 21))
    has_screenshot = fields.Boolean(**describe("Whether the page of the backup shows the screen.", True))
    created_at = Time(**describe("When it was requested.", EXAMPLE_TIME))
    finished_at = Time(allow_none=True, **describe("When it ended.", EXAMPLE_TIME))
