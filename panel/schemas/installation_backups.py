"""Backups of the installation in the admin API."""

from marshmallow import fields, validate

from panel.schemas.backup_destinations import (
    BackupDestinationOut,
    build_fields,
)
from panel.schemas.backup_policies import BACKUP_FREQUENCIES, TIME_RULE
from panel.schemas.base import Bool, In, Int, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.instance_backups import EXAMPLE_ID, EXAMPLE_TIME

ARCHIVE_STORAGE_TYPES = ("local", "s3", "rclone")
"""Kinds of destinations that store archives. Backup servers only take disks."""

MIN_PASSPHRASE_LENGTH, MAX_PASSPHRASE_LENGTH = 12, 255
RUN_STATUSES = ("queued", "running", "completed", "failed", "deleting")
RUN_TRIGGERS = ("schedule", "manual")
MAX_RETENTION_COUNT = 365
DEFAULTS = {
    "enabled": False,
    "destination_id": None,
    "frequency": "daily",
    "time": "02:00",
    "day": None,
    "retention_count": 14,
}
"""Settings of an installation that has none."""


def build_storage_type(*, required):
    return fields.String(
        required=required,
        validate=validate.OneOf(ARCHIVE_STORAGE_TYPES),
        **describe(
            "Kind of storage. `local`: a directory. `s3`: a bucket of an S3 server. `rclone`: a remote of rclone.", "s3"
        ),
    )


DESTINATION_FIELDS = ("name", "config", "enabled")


def build_destination_fields(*, required):
    common = build_fields(required=required)
    return {name: common[name] for name in DESTINATION_FIELDS} | {"storage_type": build_storage_type(required=required)}


InstallationDestinationIn = In.from_dict(build_destination_fields(required=True), name="InstallationDestinationIn")
InstallationDestinationPatch = Patch.from_dict(
    build_destination_fields(required=False), name="InstallationDestinationPatch"
)


class InstallationDestinationOut(BackupDestinationOut):
    class Meta:
        exclude = ("bandwidth_limit", "all_hypervisors", "hypervisor_ids", "copy_to_id", "copy_retention_days")


class InstallationBackupOut(Out):
    id = fields.String(**describe("Id of the run.", EXAMPLE_ID))
    destination_id = fields.String(**describe("Destination of the archive.", EXAMPLE_ID))
    destination_name = fields.String(**describe("Name of the destination.", "offsite"))
    trigger = fields.String(
        validate=validate.OneOf(RUN_TRIGGERS), **describe("Whether the schedule requested it.", "schedule")
    )
    status = fields.String(
        validate=validate.OneOf(RUN_STATUSES),
        **describe(
            "`completed`: the whole archive is stored. `deleting`: it is being deleted, or could not be; see `error`.",
            "completed",
        ),
    )
    archive = fields.String(
        allow_none=True,
        **describe("Name of the archive for `panel backup fetch`; null unless it was completed.", f"{EXAMPLE_ID}/5f0c"),
    )
    size = fields.Integer(allow_none=True, **describe("Bytes of the archive; null until it is complete.", 52428800))
    error = fields.String(allow_none=True, **describe("Why it failed, or could not be deleted.", None))
    created_at = Time(**describe("When it was requested.", EXAMPLE_TIME))
    started_at = Time(allow_none=True, **describe("When a worker began; null before.", EXAMPLE_TIME))
    finished_at = Time(allow_none=True, **describe("When it was completed or failed; null before.", EXAMPLE_TIME))


class InstallationBackupQuery(PageQuery):
    status = fields.String(validate=validate.OneOf(RUN_STATUSES), **describe("Only runs with this status.", "failed"))


class InstallationBackupIn(In):
    destination_id = Text(
        maximum=36, **describe("Destination of the archive. Default: that of the settings.", EXAMPLE_ID)
    )


class InstallationBackupSettingsPatch(Patch):
    enabled = Bool(**describe("Whether backups are created on the schedule.", True))
    destination_id = Text(
        maximum=36, allow_none=True, **describe("Destination of the archives; required while enabled.", EXAMPLE_ID)
    )
    frequency = fields.String(
        validate=validate.OneOf(BACKUP_FREQUENCIES), **describe("How often backups are created.", "daily")
    )
    time = fields.String(validate=TIME_RULE, **describe("Time of day, in UTC.", "02:00"))
    day = Int(
        0, 6, allow_none=True, **describe("Day of weekly backups: 0 is Sunday. Daily backups have none: null.", None)
    )
    retention_count = Int(
        1,
        MAX_RETENTION_COUNT,
        **describe(
            "Completed backups that are kept in each destination. Older ones are deleted after the next backup.", 14
        ),
    )
    passphrase = Text(
        minimum=MIN_PASSPHRASE_LENGTH,
        maximum=MAX_PASSPHRASE_LENGTH,
        **describe(
            "Encrypts the archives; required while enabled. It is never returned, and a restore needs it: store it "
            "outside the panel. Existing archives keep the passphrase they were created with.",
            "correct horse battery staple",
        ),
    )


class InstallationBackupSettingsOut(Out):
    enabled = fields.Boolean(**describe("Whether backups are created on the schedule.", True))
    destination_id = fields.String(allow_none=True, **describe("Destination of the archives.", EXAMPLE_ID))
    frequency = fields.String(
        validate=validate.OneOf(BACKUP_FREQUENCIES), **describe("How often backups are created.", "daily")
    )
    time = fields.String(**describe("Time of day, in UTC.", "02:00"))
    day = fields.Integer(allow_none=True, **describe("Day of weekly backups: 0 is Sunday.", None))
    retention_count = fields.Integer(**describe("Completed backups that are kept in each destination.", 14))
    has_passphrase = fields.Boolean(**describe("Whether there is a passphrase.", True))
    passphrase_changed_at = Time(
        allow_none=True, **describe("When it last changed. Earlier archives need the earlier one.", EXAMPLE_TIME)
    )
    next_run_at = Time(allow_none=True, **describe("When the next backup is due; null if disabled.", EXAMPLE_TIME))
