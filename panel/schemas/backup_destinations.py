"""Backup destinations in the admin API."""

from marshmallow import ValidationError, fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Name, Out, Patch, Text, Time, describe
from panel.schemas.hypervisors import EXAMPLE_ID, FOLDER_RULE

BACKUP_STORAGE_TYPES = ("local",)
DESTINATION_STATUSES = ("unknown", "available", "unavailable")
MAX_BANDWIDTH_LIMIT = 100_000
"""MiB per second."""


class LocalConfig(In):
    path = Text(
        rules=[FOLDER_RULE],
        required=True,
        **describe("Directory that every worker reaches under this path. It is created if necessary.", "/srv/backups"),
    )


class Config(fields.Nested):
    """A nested object, whose errors name it."""

    def _deserialize(self, value, attr, data, **kwargs):
        if not isinstance(value, dict):
            raise ValidationError(message("Must be an object."))
        return super()._deserialize(value, attr, data, **kwargs)


def build_fields(*, required):
    """Return the fields of a body. Those without `required` stay as they are in a change."""
    return {
        "name": Name(maximum=64, required=required, **describe("Unique name.", "backups-1")),
        "storage_type": fields.String(
            required=required,
            validate=validate.OneOf(BACKUP_STORAGE_TYPES),
            **describe("Kind of storage. `local`: a directory.", "local"),
        ),
        "config": Config(
            LocalConfig, required=required, **describe("Settings of this kind of storage. They are never returned.")
        ),
        "enabled": Bool(**describe("Whether new backups are stored there.", True)),
        "bandwidth_limit": Int(
            0,
            MAX_BANDWIDTH_LIMIT,
            **describe("MiB per second at which one backup reads disks; 0 means unlimited.", 100),
        ),
        "hypervisor_ids": fields.List(
            Text(maximum=36),
            validate=validate.Length(max=1000),
            **describe("Hypervisors whose backups go there. Empty: all hypervisors.", [EXAMPLE_ID]),
        ),
    }


BackupDestinationIn = In.from_dict(build_fields(required=True), name="BackupDestinationIn")
BackupDestinationPatch = Patch.from_dict(build_fields(required=False), name="BackupDestinationPatch")


class BackupDestinationOut(Out):
    id = fields.String(**describe("Destination id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique name.", "backups-1"))
    storage_type = fields.String(validate=validate.OneOf(BACKUP_STORAGE_TYPES), **describe("Kind.", "local"))
    enabled = fields.Boolean(**describe("Whether new backups are stored there.", True))
    bandwidth_limit = fields.Integer(
        **describe("MiB per second at which one backup reads disks; 0 means unlimited.", 100)
    )
    all_hypervisors = fields.Boolean(**describe("Whether it is for backups of all hypervisors.", False))
    hypervisor_ids = fields.List(
        fields.String(), **describe("The hypervisors whose backups go there, unless it is for all.", [EXAMPLE_ID])
    )
    status = fields.String(validate=validate.OneOf(DESTINATION_STATUSES), **describe("Last result.", "available"))
    status_detail = fields.String(allow_none=True, **describe("Why it is unavailable.", None))
    checked_at = Time(allow_none=True, **describe("When a worker last checked it.", "2026-01-02T03:04:05.678Z"))
    capacity = fields.Integer(allow_none=True, **describe("Size of its file system in bytes.", 1099511627776))
    free = fields.Integer(allow_none=True, **describe("Free bytes of its file system.", 549755813888))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class DestinationCheckStep(Out):
    name = fields.String(
        validate=validate.OneOf(("reachability", "write_access")),
        **describe("`reachability` of the directory, or `write_access`.", "reachability"),
    )
    success = fields.Boolean(**describe("Whether the step succeeded.", True))
    message = fields.String(allow_none=True, **describe("Why it failed.", None))


class DestinationCheckOut(Out):
    passed = fields.Boolean(**describe("Whether all steps succeeded.", True))
    checked_at = Time(**describe("When the worker checked it.", "2026-01-02T03:04:05.678Z"))
    steps = fields.List(
        fields.Nested(DestinationCheckStep),
        attribute="check_steps",
        **describe("Steps up to the first that failed."),
    )


class DestinationCreated(Out):
    storage_id = fields.String(**describe("Id of the new destination.", EXAMPLE_ID))
