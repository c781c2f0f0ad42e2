"""Backups of instances in the API."""

from marshmallow import Schema, fields, validate

from panel.schemas.audit import Moment
from panel.schemas.backup_destinations import BACKUP_STORAGE_TYPES
from panel.schemas.base import Bool, Hostname, In, Name, Out, PageQuery, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
BACKUP_TYPES = ("full", "incremental")
BACKUP_DEVICES = ("primary", "all")
BACKUP_STATUSES = ("creating", "complete", "failed")
CONSISTENCIES = ("filesystem", "crash", "stopped")
COPY_STATUSES = ("requested", "copying", "complete", "failed", "deleting")
DELETION_STATES = ("queued", "running", "unconfirmed")
VERIFICATIONS = ("ok", "failed", "none")
BACKUP_SORTS = ("created_at", "size", "rbs_backup_time", "name")
MAX_BULK_BACKUPS = 500


class BackupDiskOut(Out):
    id = fields.String(**describe("Disk id.", EXAMPLE_ID))
    position = fields.Integer(**describe("Position of the disk; 0 is the first.", 0))
    size = fields.Integer(**describe("Size of the disk in bytes.", 10737418240))
    read_mode = fields.String(
        validate=validate.OneOf(BACKUP_TYPES), **describe("Whether everything or only changes were read.", "full")
    )
    full_read_reason = fields.String(allow_none=True, **describe("Why everything was read.", "first_backup"))


class BackupStatisticsOut(Out):
    bytes_read = fields.Integer(**describe("Bytes read from the disks.", 10485760))
    bytes_stored = fields.Integer(**describe("Bytes written to the destination.", 5242880))
    bytes_used = fields.Integer(**describe("Bytes on the disks that are not zero.", 2147483648))
    chunks_stored = fields.Integer(**describe("Chunks that were new.", 40))
    chunks_shared = fields.Integer(**describe("Chunks that the destination already had.", 8152))


class BackupCopyStateOut(Out):
    status = fields.String(validate=validate.OneOf(COPY_STATUSES), **describe("Current status.", "complete"))
    destination_name = fields.String(**describe("Name of the second destination.", "offsite"))
    retained_until = Time(
        allow_none=True, **describe("Until when it cannot be deleted; null until copying begins.", EXAMPLE_TIME)
    )
    is_locked = fields.Boolean(**describe("Whether the storage itself keeps it until then (S3 object lock).", True))
    completed_at = Time(allow_none=True, **describe("When it was completed.", EXAMPLE_TIME))


class InstanceBackupOut(Out):
    id = fields.String(**describe("Backup id.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "before the upgrade"))
    description = fields.String(**describe("Description, or empty.", "Before 13"))
    backup_type = fields.String(
        validate=validate.OneOf(BACKUP_TYPES),
        **describe(
            "`full`, or `incremental` if only changes were read. Each can be restored on its own.", "incremental"
        ),
    )
    backup_device = fields.String(
        validate=validate.OneOf(BACKUP_DEVICES), **describe("`primary`: the first disk. `all`: all disks.", "all")
    )
    size = fields.Integer(**describe("Bytes that it added to the destination.", 5242880))
    created = fields.Boolean(**describe("Whether it is complete.", True))
    status = fields.String(validate=validate.OneOf(BACKUP_STATUSES), **describe("Current status.", "complete"))
    error = fields.String(allow_none=True, **describe("Why it failed.", None))
    encrypted = fields.Constant(True, **describe("Backups are always encrypted.", True))
    consistency = fields.String(
        allow_none=True,
        validate=validate.OneOf(CONSISTENCIES),
        **describe(
            "`filesystem`: frozen by the guest agent. `crash`: as after a power failure. `stopped`: the guest was off.",
            "filesystem",
        ),
    )
    chain_reason = fields.String(
        allow_none=True,
        **describe(
            "Why disks were read completely: `first_backup`, `requested`, `backup_mode` (the location's is full), "
            "`chain_length` (the policy's `max_incremental_chain`), `chain_reset`, `no_checkpoint`, `broken_bitmap`, "
            "`stopped`, `new_disk`, `missing_chunks` or `previous_missing`; else null.",
            "first_backup",
        ),
    )
    parent_backup_id = fields.String(
        allow_none=True, **describe("The backup whose content was reused; null if everything was read.", EXAMPLE_ID)
    )
    disks = fields.List(fields.Nested(BackupDiskOut), attribute="disk_facts", **describe("Its disks."))
    statistics = fields.Nested(
        BackupStatisticsOut,
        attribute="statistics_facts",
        allow_none=True,
        **describe("What was read and stored."),
    )
    read_mode = fields.String(
        allow_none=True,
        validate=validate.OneOf(BACKUP_TYPES),
        **describe("`full` or `incremental` on a backup server (`rbs`); else null.", "incremental"),
    )
    bytes_read = fields.Integer(
        allow_none=True, **describe("Bytes read from the disks for a backup server; else null, see `statistics`.", None)
    )
    bytes_uploaded = fields.Integer(
        allow_none=True, **describe("Bytes sent to a backup server; else null, see `statistics`.", None)
    )
    chunks_reused = fields.Integer(
        allow_none=True, **describe("Chunks that a backup server already had; else null, see `statistics`.", None)
    )
    verification_status = fields.String(
        attribute="shown_verification_status",
        allow_none=True,
        validate=validate.OneOf(VERIFICATIONS),
        **describe("Result of the backup server's last verification; null for other destinations.", "ok"),
    )
    verified_at = Time(
        allow_none=True, **describe("When all of its content was last found intact; null if never.", EXAMPLE_TIME)
    )
    damaged = fields.Boolean(
        **describe(
            "Whether a verification found content that cannot be read. The next backup of the instance stores it again "
            "if the disks still have it.",
            False,
        )
    )
    rbs_backup_id = fields.String(
        allow_none=True, **describe("Backup group on the backup server; null for other destinations.", EXAMPLE_ID)
    )
    rbs_backup_time = fields.Integer(
        allow_none=True,
        **describe("Time of the snapshot on the backup server, in seconds since 1970; else null.", 1767323045),
    )
    based_on_backup_id = fields.String(
        allow_none=True,
        **describe("The backup on a backup server that was reused; null for full reads and other destinations.", None),
    )
    based_on_rbs_backup_time = fields.Integer(
        allow_none=True, **describe("Time of the snapshot that was reused, in seconds since 1970; else null.", None)
    )
    missing_on_rbs = fields.Boolean(**describe("Whether the backup server no longer has it.", False))
    copies = fields.List(fields.Nested(BackupCopyStateOut), **describe("Its copies in other destinations."))
    protected = fields.Boolean(**describe("Whether it is protected from deletion.", False))
    deletion = fields.String(
        allow_none=True,
        validate=validate.OneOf(DELETION_STATES),
        **describe(
            "State of its deletion: `queued`, `running`, or `unconfirmed` if the outcome is not known; else null.", None
        ),
    )
    policy_id = fields.String(
        allow_none=True,
        **describe(
            "The backup policy or backup job that requested it, if any; users cannot open those of the platform.", None
        ),
    )
    instance_id = fields.String(**describe("The instance.", EXAMPLE_ID))
    instance_name = fields.String(**describe("Display name of the instance.", "Shop front"))
    instance_hostname = fields.String(**describe("Host name of the instance.", "shop.example.com"))
    instance_state = fields.String(
        validate=validate.OneOf(("live", "deleted")), **describe("Whether the instance exists.", "live")
    )
    instance_deleted = fields.Boolean(**describe("Whether the instance was destroyed.", False))
    backup_storage_id = fields.String(attribute="destination_id", **describe("The destination.", EXAMPLE_ID))
    destination_name = fields.String(**describe("Name of the destination.", "backups-1"))
    destination_type = fields.String(
        validate=validate.OneOf(BACKUP_STORAGE_TYPES), **describe("Kind of the destination.", "local")
    )
    created_at = Time(**describe("When it was requested.", EXAMPLE_TIME))
    completed_at = Time(allow_none=True, **describe("When it was completed.", EXAMPLE_TIME))


class AdminInstanceBackupOut(InstanceBackupOut):
    account_id = fields.String(**describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("Email address of the owner.", "ada@example.com"))
    instance_cleanup_pending = fields.Boolean(
        **describe("Whether the instance was destroyed and the removal of the backup is not confirmed.", False)
    )
    operation_id = fields.String(
        attribute="delete_task_id", allow_none=True, **describe("The task of its deletion, if requested.", None)
    )
    rbs_namespace = fields.String(
        allow_none=True,
        **describe("Namespace on the backup server, empty for its root; null for other destinations.", "panel"),
    )
    missing_candidate_at = Time(
        allow_none=True, **describe("When a comparison did not find it in the destination; else null.", None)
    )
    missing_confirmed_at = Time(
        allow_none=True,
        **describe(
            "When a second comparison did not find it either, so that customers do not see it; else null.", None
        ),
    )


class BackupAncestorOut(Out):
    id = fields.String(**describe("Backup id.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "nightly"))
    backup_type = fields.String(validate=validate.OneOf(BACKUP_TYPES), **describe("Type.", "full"))
    created_at = Time(**describe("When it was requested.", EXAMPLE_TIME))


class InstanceBackupQuery(PageQuery):
    search = Text(**describe("Part of the name or description, or of the instance's name or host name.", "nightly"))
    instance_id = Text(maximum=36, **describe("Only backups of this instance.", EXAMPLE_ID))
    backup_storage_id = Text(maximum=36, **describe("Only backups in this destination.", EXAMPLE_ID))
    storage_type = fields.String(
        validate=validate.OneOf(BACKUP_STORAGE_TYPES), **describe("Only this kind of destination.", "local")
    )
    backup_type = fields.String(validate=validate.OneOf(BACKUP_TYPES), **describe("Only this type.", "full"))
    created = fields.Boolean(
        truthy={"true", "1"}, falsy={"false", "0"}, **describe("Only backups that are, or are not, complete.", True)
    )
    verification = fields.String(
        validate=validate.OneOf(VERIFICATIONS), **describe("Only this result of the last verification.", "none")
    )
    protected = fields.Boolean(
        truthy={"true", "1"}, falsy={"false", "0"}, **describe("Only protected or unprotected backups.", False)
    )
    claim = fields.String(
        validate=validate.OneOf(("none", "claimed")),
        **describe("`claimed`: only backups whose deletion was requested. `none`: only others.", "none"),
    )
    instance_state = fields.String(
        validate=validate.OneOf(("live", "deleted")), **describe("Only backups of live or destroyed instances.", "live")
    )
    created_from = Moment(**describe("Only backups since this time.", EXAMPLE_TIME))
    created_to = Moment(**describe("Only backups up to this time.", EXAMPLE_TIME))
    sort = fields.String(
        load_default="created_at", validate=validate.OneOf(BACKUP_SORTS), **describe("Sort key.", "size")
    )
    dir = fields.String(
        load_default="desc", validate=validate.OneOf(("asc", "desc")), **describe("Sort direction.", "asc")
    )


class AdminInstanceBackupQuery(InstanceBackupQuery):
    issue = fields.String(
        validate=validate.OneOf(("cleanup_pending",)),
        **describe("`cleanup_pending`: only backups of destroyed instances whose removal is not confirmed.", None),
    )


class InstanceBackupIn(In):
    name = Name(**describe("Name. Defaults to the host name and the time.", "before the upgrade"))
    description = Text(maximum=1024, lines=True, allow_none=True, **describe("Description.", "Before 13"))
    backup_type = fields.String(
        validate=validate.OneOf(BACKUP_TYPES),
        **describe(
            "`full` reads everything; `incremental` only changes, if possible. Defaults to the location's setting.",
            "incremental",
        ),
    )
    backup_device = fields.String(
        load_default="all",
        validate=validate.OneOf(BACKUP_DEVICES),
        **describe("`primary`: the first disk. `all`: all disks.", "all"),
    )
    encrypted = Bool(**describe("Accepted for compatibility. Backups are always encrypted.", True))


class BackupRestoreIn(In):
    target_disk_id = Text(
        maximum=36,
        allow_none=True,
        load_default=None,
        **describe("The disk to restore. Defaults to all disks in the backup.", EXAMPLE_ID),
    )


class RestoreToNewIn(In):
    hypervisor_id = Text(
        maximum=36, **describe("Hypervisor of the new instance. Default: that of the backup's instance.", EXAMPLE_ID)
    )
    plan_id = Text(maximum=36, **describe("Plan. Default: that of the backup's instance.", EXAMPLE_ID))
    hostname = Hostname(**describe("Host name. Default: as in the backup.", "shop-2.example.com"))
    display_name = Name(**describe("Display name. Default: as in the backup.", "Shop copy"))


class RestoredToNew(Out):
    task_id = fields.String(**describe("The task that restores it.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The new instance.", EXAMPLE_ID))
    billing_mode = fields.String(
        validate=validate.OneOf(("cloud_service", "self_provisioned", "external")),
        **describe("Who charges for it, as for the backup's instance.", "cloud_service"),
    )


class RestoreTargetOut(Out):
    id = fields.String(**describe("Disk id, for `target_disk_id`.", EXAMPLE_ID))
    name = fields.String(**describe("Name of the disk on its hypervisor.", "vm-1-disk-0"))
    position = fields.Integer(**describe("Position of the disk; 0 is the first.", 0))
    size = fields.Integer(**describe("Size of the disk in bytes.", 10737418240))
    stored_size = fields.Integer(
        allow_none=True, **describe("Size of the stored disk in bytes; null without one.", 10737418240)
    )
    restorable = fields.Boolean(**describe("Whether the backup has a disk that can replace it.", True))
    reason = fields.String(allow_none=True, **describe("Reason code why not.", None))
    message = fields.String(allow_none=True, **describe("The reason as a sentence.", None))


class BackupRestoreFormOut(Out):
    backup = fields.Nested(AdminInstanceBackupOut, **describe("The backup."))
    restorable = fields.Boolean(**describe("Whether it can be restored now, as far as the panel knows.", True))
    reason = fields.String(allow_none=True, **describe("Reason code why not.", None))
    message = fields.String(allow_none=True, **describe("The reason as a sentence.", None))
    disks = fields.List(fields.Nested(RestoreTargetOut), **describe("The attached disks of the instance."))


class BackupProtectionIn(In):
    protected = Bool(required=True, **describe("Whether the backup cannot be deleted.", True))


class BackupIdsIn(In):
    backups = fields.List(
        Text(maximum=36),
        required=True,
        validate=validate.Length(1, MAX_BULK_BACKUPS),
        **describe("Backup ids.", [EXAMPLE_ID]),
    )


class BackupDeletionLine(Schema):
    sometimes = ("reason",)
    id = fields.String(**describe("Backup id.", EXAMPLE_ID))
    status = fields.Integer(**describe("HTTP status that a request for this backup alone would have.", 200))
    success = fields.Boolean(**describe("Whether the deletion was accepted.", True))
    message = fields.String(**describe("Result as a sentence.", "Deletion of the backup requested."))
    reason = fields.String(**describe("Reason code of the refusal.", "backup_not_deletable"))


class BackupDeletionOut(Schema):
    queued = fields.Integer(**describe("Number of accepted deletions.", 1))
    refused = fields.Integer(**describe("Number of refused deletions.", 0))
    results = fields.List(
        fields.Nested(BackupDeletionLine), **describe("Result for each backup, in the order of the request.")
    )


class BackupDeletionRefused(Schema):
    """The answer when the deletion of some or all backups was refused."""

    sometimes = ("reason", "data")
    success = fields.Boolean(**describe("Always false.", False))
    message = fields.String(**describe("Result as a sentence.", "Requested for 1 backup, 1 refused."))
    reason = fields.String(**describe("Reason code, if the whole request was refused.", "task_running"))
    data = fields.Nested(BackupDeletionOut, **describe("Result for each backup."))
