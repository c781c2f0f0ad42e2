"""Backup plans and backup jobs of hypervisor groups in the admin API."""

from marshmallow import fields, validate

from panel.core.messages import message
from panel.schemas.backup_policies import KEEP_RULES, RETENTION_MODES, AdminBackupPolicyOut, build_fields
from panel.schemas.base import Bool, In, Int, Name, Out, Patch, Text, Time, describe
from panel.schemas.instance_backups import BACKUP_DEVICES, EXAMPLE_ID, EXAMPLE_TIME

TARGET_TYPES = ("all", "hypervisor")
BACKUP_JOB_MODES = ("snapshot",)
COMPRESSIONS = ("zstd",)
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
"""Words for the days of weekly schedules: 0 is Sunday."""
SCHEDULE_RULE = validate.Regexp(
    r"\A((?i:sun|mon|tue|wed|thu|fri|sat) )?([01][0-9]|2[0-3]):[0-5][0-9]\Z",
    error=message("Must be a time such as 02:00, or a weekday and a time such as sun 02:00."),
)
STORAGE_TEXT = "Id of the backup destination; null: the first one of each hypervisor."

KeepIn = In.from_dict(
    {
        rule: Int(0, maximum, allow_none=True, **describe(f"Number of {meaning}.", 7 if rule == "keep_daily" else 0))
        for rule, (maximum, meaning) in KEEP_RULES.items()
    },
    name="BackupKeepIn",
)


def build_job_fields(*, is_new):
    """Return the fields of a body. Only new jobs have defaults."""

    def default(value):
        return {"load_default": value} if is_new else {}

    return {
        "name": Name(**describe("Name. Defaults to the name of the group.", "nightly")),
        "plan_id": Text(
            maximum=36,
            allow_none=True,
            **describe(
                "The backup plan whose schedule, retention and destination the job uses, even after the plan changes.",
                EXAMPLE_ID,
            ),
        ),
        "target_type": fields.String(
            validate=validate.OneOf(TARGET_TYPES),
            **describe("`all`: every instance of the group. `hypervisor`: those on one of its hypervisors.", "all"),
        ),
        "target_value": Text(
            maximum=36, allow_none=True, **describe("For `hypervisor`: the hypervisor's id. Else null.", None)
        ),
        "storage": Text(maximum=36, allow_none=True, **describe(STORAGE_TEXT, EXAMPLE_ID)),
        "schedule": fields.String(
            validate=SCHEDULE_RULE,
            **describe("Time of day in UTC; with a weekday (`sun` to `sat`) once a week. 02:00 without one.", "02:00"),
        ),
        "keep": fields.Nested(
            KeepIn,
            **describe(
                "Which backups are retained: every backup that a rule selects. Omitted rules are off. "
                "Required for a new job without a plan.",
                {"keep_daily": 7, "keep_weekly": 4},
            ),
        ),
        "mode": fields.String(
            validate=validate.OneOf(BACKUP_JOB_MODES),
            **describe("Instances keep running: `snapshot` is the only mode.", "snapshot"),
        ),
        "compress": fields.String(
            validate=validate.OneOf(COMPRESSIONS), **describe("`zstd` is the only compression.", "zstd")
        ),
        "backup_device": fields.String(
            validate=validate.OneOf(BACKUP_DEVICES), **describe("`primary`: the first disk. `all`: all disks.", "all")
        ),
        "max_incremental_chain": Int(
            0,
            30,
            **describe(
                "Number of incremental backups after which the next one reads everything; 0: every backup does.", 7
            ),
        ),
        "enabled": Bool(**default(True), **describe("Whether it runs.", True)),
        "comment": Text(**default(""), **describe("A note for operators.", "agreed with support")),
    }


BackupJobIn = In.from_dict(build_job_fields(is_new=True), name="BackupJobIn")
BackupJobPatch = Patch.from_dict(build_job_fields(is_new=False), name="BackupJobPatch")


class KeepOut(Out):
    keep_last = fields.Integer(**describe("Newest backups.", 0))
    keep_within_days = fields.Integer(**describe("Days of which all backups are retained.", 0))
    keep_daily = fields.Integer(**describe("Days of which the last backup is retained.", 7))
    keep_weekly = fields.Integer(**describe("Weeks of which the last backup is retained.", 4))
    keep_monthly = fields.Integer(**describe("Months of which the last backup is retained.", 0))
    keep_yearly = fields.Integer(**describe("Years of which the last backup is retained.", 0))


class BackupJobOut(Out):
    id = fields.String(**describe("Job id.", EXAMPLE_ID))
    hypervisor_group_id = fields.String(attribute="group_id", **describe("The hypervisor group.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "nightly"))
    plan_id = fields.String(allow_none=True, **describe("The backup plan that it follows, or null.", EXAMPLE_ID))
    plan_name = fields.String(allow_none=True, **describe("Name of the plan.", "gold"))
    target_type = fields.String(validate=validate.OneOf(TARGET_TYPES), **describe("Which instances it covers.", "all"))
    target_value = fields.String(
        attribute="hypervisor_id", allow_none=True, **describe("The hypervisor's id, for `hypervisor`.", None)
    )
    storage = fields.String(attribute="destination_id", allow_none=True, **describe(STORAGE_TEXT, EXAMPLE_ID))
    storage_name = fields.String(
        attribute="destination_name", allow_none=True, **describe("Name of the destination.", "backups-1")
    )
    schedule = fields.String(**describe("Time of day in UTC, with a weekday for weekly jobs.", "02:00"))
    retention_mode = fields.String(
        validate=validate.OneOf(RETENTION_MODES), **describe("`count`, as the plan has it, or `gfs`.", "gfs")
    )
    retention_count = fields.Integer(
        allow_none=True, **describe("Backups that are retained of each disk, in the mode `count`.", None)
    )
    keep = fields.Nested(KeepOut, attribute="keep_rules", **describe("The rules of the mode `gfs`."))
    mode = fields.String(validate=validate.OneOf(BACKUP_JOB_MODES), **describe("Always `snapshot`.", "snapshot"))
    compress = fields.String(validate=validate.OneOf(COMPRESSIONS), **describe("Always `zstd`.", "zstd"))
    backup_device = fields.String(
        validate=validate.OneOf(BACKUP_DEVICES), **describe("Which disks are backed up.", "all")
    )
    max_incremental_chain = fields.Integer(
        **describe("Number of incremental backups after which the next one reads everything.", 7)
    )
    enabled = fields.Boolean(**describe("Whether it runs.", True))
    comment = fields.String(**describe("A note for operators.", "agreed with support"))
    failures = fields.Integer(**describe("Failed backups since the last success.", 0))
    last_error = fields.String(allow_none=True, **describe("Why the last failed backup failed.", None))
    last_run_at = Time(allow_none=True, **describe("When its last run began.", EXAMPLE_TIME))
    next_run_at = Time(allow_none=True, attribute="planned_run_at", **describe("When it runs next.", EXAMPLE_TIME))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


STORAGE_FIELD = {"storage": Text(maximum=36, allow_none=True, **describe(STORAGE_TEXT, EXAMPLE_ID))}
BackupPlanIn = In.from_dict(build_fields(is_new=True) | STORAGE_FIELD, name="BackupPlanIn")
BackupPlanPatch = Patch.from_dict(build_fields(is_new=False) | STORAGE_FIELD, name="BackupPlanPatch")


class PlanJobOut(Out):
    id = fields.String(**describe("Job id.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "nightly"))
    hypervisor_group_id = fields.String(attribute="group_id", **describe("Its hypervisor group.", EXAMPLE_ID))
    enabled = fields.Boolean(**describe("Whether it runs.", True))


class BackupPlanOut(AdminBackupPolicyOut):
    storage = fields.String(attribute="destination_id", allow_none=True, **describe(STORAGE_TEXT, EXAMPLE_ID))
    storage_name = fields.String(
        attribute="destination_name", allow_none=True, **describe("Name of the destination.", "backups-1")
    )
    jobs = fields.List(fields.Nested(PlanJobOut), **describe("The backup jobs that follow the plan."))
