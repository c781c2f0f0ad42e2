"""Backup policies in the API."""

from marshmallow import fields, validate

from panel.core.messages import message
from panel.schemas.base import In, Int, Name, Out, Patch, Text, Time, describe
from panel.schemas.instance_backups import BACKUP_DEVICES, EXAMPLE_ID, EXAMPLE_TIME

BACKUP_FREQUENCIES = ("daily", "weekly")
RETENTION_MODES = ("count", "gfs")
POLICY_STATUSES = ("active", "error")
TIME_RULE = validate.Regexp(r"\A([01][0-9]|2[0-3]):[0-5][0-9]\Z", error=message("Must be a time such as 02:30."))
MAX_RETENTION_COUNT = 365
KEEP_RULES = {
    "keep_last": (365, "newest backups"),
    "keep_within_days": (3650, "days of which all backups are retained"),
    "keep_daily": (365, "days of which the last backup is retained"),
    "keep_weekly": (520, "weeks of which the last backup is retained"),
    "keep_monthly": (120, "months of which the last backup is retained"),
    "keep_yearly": (30, "years of which the last backup is retained"),
}
"""The rules of the mode `gfs`: maximum and meaning."""
RETENTION_COUNT_TEXT = "Backups that are retained of each disk, in the mode `count`."


DEFAULTS = {
    "full_backup_frequency": "daily",
    "full_backup_time": "02:00",
    "full_backup_day": None,
    "max_incremental_chain": 7,
    "backup_device": "all",
    "retention_mode": "count",
    "retention_count": None,
    **dict.fromkeys(KEEP_RULES, 0),
}
"""What a new policy has if nothing else is sent."""


def build_fields(*, is_new):
    """Return the fields of a body. Those of a change have no defaults."""

    def options(name, description, example):
        return describe(description, example) | ({"load_default": DEFAULTS[name]} if is_new else {})

    return {
        "name": Name(required=is_new, **describe("Name.", "nightly")),
        "full_backup_frequency": fields.String(
            validate=validate.OneOf(BACKUP_FREQUENCIES),
            **options("full_backup_frequency", "How often backups are created.", "daily"),
        ),
        "full_backup_time": fields.String(
            validate=TIME_RULE,
            **options(
                "full_backup_time",
                "Time of day, in the account's time zone; UTC for policies of the platform.",
                "02:30",
            ),
        ),
        "full_backup_day": Int(
            0,
            6,
            allow_none=True,
            **options("full_backup_day", "Day of weekly backups: 0 is Sunday. Null for daily ones.", None),
        ),
        "max_incremental_chain": Int(
            0,
            30,
            **options(
                "max_incremental_chain",
                "Number of incremental backups after which the next one reads everything; 0: every backup does.",
                7,
            ),
        ),
        "backup_device": fields.String(
            validate=validate.OneOf(BACKUP_DEVICES),
            **options("backup_device", "`primary`: the first disk. `all`: all disks.", "all"),
        ),
        "retention_mode": fields.String(
            validate=validate.OneOf(RETENTION_MODES),
            **options(
                "retention_mode",
                "`count`: the newest ones. `gfs`: all that one of the `keep_…` rules selects.",
                "count",
            ),
        ),
        "retention_count": Int(
            1, MAX_RETENTION_COUNT, allow_none=True, **options("retention_count", RETENTION_COUNT_TEXT, 7)
        ),
        **{
            rule: Int(0, maximum, allow_none=True, **options(rule, f"In the mode `gfs`: number of {meaning}.", 0))
            for rule, (maximum, meaning) in KEEP_RULES.items()
        },
    }


BackupPolicyIn = In.from_dict(build_fields(is_new=True), name="BackupPolicyIn")
BackupPolicyPatch = Patch.from_dict(build_fields(is_new=False), name="BackupPolicyPatch")
AdminBackupPolicyIn = In.from_dict(
    build_fields(is_new=True)
    | {
        "user_id": Text(
            maximum=36,
            allow_none=True,
            **describe(
                "The account that gets the policy. Without one, the policy is for instances of all accounts.",
                EXAMPLE_ID,
            ),
        )
    },
    name="AdminBackupPolicyIn",
)


class BackupPolicyOut(Out):
    id = fields.String(**describe("Policy id.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "nightly"))
    status = fields.String(
        validate=validate.OneOf(POLICY_STATUSES), **describe("`error` after a failed backup.", "active")
    )
    full_backup_frequency = fields.String(
        validate=validate.OneOf(BACKUP_FREQUENCIES), **describe("How often backups are created.", "daily")
    )
    full_backup_time = fields.String(**describe("Time of day in `timezone`.", "02:30"))
    full_backup_day = fields.Integer(allow_none=True, **describe("Day of weekly backups: 0 is Sunday.", None))
    timezone = fields.String(**describe("Time zone of the schedule.", "Europe/Berlin"))
    max_incremental_chain = fields.Integer(
        **describe("Number of incremental backups after which the next one reads everything.", 7)
    )
    backup_device = fields.String(
        validate=validate.OneOf(BACKUP_DEVICES), **describe("Which disks are backed up.", "all")
    )
    retention_mode = fields.String(validate=validate.OneOf(RETENTION_MODES), **describe("Mode of retention.", "count"))
    retention_count = fields.Integer(allow_none=True, **describe(RETENTION_COUNT_TEXT, 7))
    keep_last = fields.Integer(**describe("Newest backups.", 0))
    keep_within_days = fields.Integer(**describe("Days of which all backups are retained.", 0))
    keep_daily = fields.Integer(**describe("Days of which the last backup is retained.", 0))
    keep_weekly = fields.Integer(**describe("Weeks of which the last backup is retained.", 0))
    keep_monthly = fields.Integer(**describe("Months of which the last backup is retained.", 0))
    keep_yearly = fields.Integer(**describe("Years of which the last backup is retained.", 0))
    failures = fields.Integer(**describe("Failed backups since the last success or reset.", 0))
    last_error = fields.String(allow_none=True, **describe("Why the last failed backup failed.", None))
    last_run_at = Time(allow_none=True, **describe("When it last requested backups.", EXAMPLE_TIME))
    next_run_at = Time(**describe("When it requests backups next.", EXAMPLE_TIME))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class PolicyInstanceOut(Out):
    id = fields.String(**describe("Instance id.", EXAMPLE_ID))
    display_name = fields.String(**describe("Display name.", "Shop front"))
    hostname = fields.String(**describe("Host name.", "shop.example.com"))


class PolicyWithInstances(BackupPolicyOut):
    instances = fields.List(fields.Nested(PolicyInstanceOut), **describe("Instances attached to it."))


class AdminBackupPolicyOut(BackupPolicyOut):
    user_id = fields.String(
        attribute="account_id", allow_none=True, **describe("The account; null for policies of the platform.", None)
    )
    owner = fields.String(attribute="owner_email", allow_none=True, **describe("Email address of the account.", None))


class AdminPolicyWithInstances(AdminBackupPolicyOut):
    instances = fields.List(fields.Nested(PolicyInstanceOut), **describe("Instances attached to it."))


class PolicyInstanceIn(In):
    instance_id = Text(maximum=36, required=True, **describe("The instance.", EXAMPLE_ID))
