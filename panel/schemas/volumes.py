"""Volumes and volume plans in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Name, Number, Out, PageQuery, Patch, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
VOLUME_STATUSES = ("pending", "available", "attached", "deleting", "failed")
BACKUP_STATUSES = ("creating", "available", "deleting", "failed")
SNAPSHOT_STATUSES = ("creating", "available", "restoring", "deleting", "failed")


class VolumeSnapshotOut(Out):
    id = fields.String(**describe("Snapshot id.", EXAMPLE_ID))
    volume_id = fields.String(**describe("Volume id.", EXAMPLE_ID))
    name = fields.String(**describe("Name, unique in the volume.", "before-upgrade"))
    status = fields.String(validate=validate.OneOf(SNAPSHOT_STATUSES), **describe("Current status.", "available"))
    size = fields.Integer(attribute="bytes", **describe("Size in bytes.", 10737418240))
    error = fields.String(allow_none=True, **describe("Why the last attempt failed.", None))
    created_at = Time(**describe("When it was requested.", "2026-01-02T03:04:05.678Z"))


class VolumeBackupOut(Out):
    id = fields.String(**describe("Backup id.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "before the upgrade"))
    status = fields.String(
        attribute="volume_status", validate=validate.OneOf(BACKUP_STATUSES), **describe("Current status.", "available")
    )
    size = fields.Integer(**describe("Bytes that it added to the destination.", 5242880))
    backup_type = fields.String(
        validate=validate.OneOf(("full", "incremental")),
        **describe("`full`, or `incremental` if only changes were read. Each can be restored alone.", "incremental"),
    )
    consistency = fields.String(
        allow_none=True,
        validate=validate.OneOf(("filesystem", "crash", "stopped")),
        **describe(
            "`filesystem`: frozen by the guest agent. `crash`: as after a power failure. `stopped`: no guest used it.",
            "filesystem",
        ),
    )
    damaged = fields.Boolean(**describe("Whether a verification found content that cannot be read.", False))
    verified_at = Time(allow_none=True, **describe("When all of its content was last found intact.", None))
    error = fields.String(allow_none=True, **describe("Why it failed.", None))
    created_at = Time(**describe("When it was requested.", "2026-01-02T03:04:05.678Z"))


class VolumeBackupRow(VolumeBackupOut):
    volume_id = fields.String(**describe("The volume, which may be deleted.", EXAMPLE_ID))
    volume_name = fields.String(**describe("Name of the volume.", "data"))
    volume_deleted = fields.Boolean(**describe("Whether the volume was deleted.", False))
    backup_storage_id = fields.String(attribute="destination_id", **describe("The destination.", EXAMPLE_ID))
    destination_name = fields.String(**describe("Name of the destination.", "backups-1"))


class AdminVolumeBackupRow(VolumeBackupRow):
    account_id = fields.String(**describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("Email address of the owner.", "ada@example.com"))
    missing_confirmed_at = Time(
        allow_none=True, **describe("When it was not found in the destination, so that customers do not see it.", None)
    )


class PendingOut(Out):
    operation = fields.String(attribute="kind", **describe("Kind of the open task.", "volume_detach"))
    task_id = fields.String(attribute="id", **describe("The task.", EXAMPLE_ID))


class VolumeOut(Out):
    id = fields.String(**describe("Volume id.", EXAMPLE_ID))
    name = fields.String(**describe("Name of the volume.", "data"))
    status = fields.String(validate=validate.OneOf(VOLUME_STATUSES), **describe("Current status.", "available"))
    deployed = fields.Boolean(**describe("Whether its disk has been created.", True))
    size = fields.Integer(**describe("Size in GiB. After a resize request it changes once the disk has grown.", 10))
    volume_plan_id = fields.String(attribute="plan_id", **describe("Volume plan id.", EXAMPLE_ID))
    hypervisor_group_id = fields.String(attribute="group_id", **describe("Location id.", EXAMPLE_ID))
    project_id = fields.String(allow_none=True, **describe("Id of its project.", None))
    instance_id = fields.String(allow_none=True, **describe("Id of the instance it is attached to.", None))
    dev = fields.String(
        allow_none=True,
        **describe("Device path in the guest; null while it is detached.", "/dev/disk/by-id/virtio-v10000001"),
    )
    path = fields.Constant(None, **describe("Always null: the path on the hypervisor is not exposed.", None))
    error = fields.String(allow_none=True, **describe("Why the last attempt failed.", None))
    pending = fields.Nested(
        PendingOut,
        allow_none=True,
        **describe("The last requested operation, until it is complete; otherwise null."),
    )
    snapshots = fields.List(fields.Nested(VolumeSnapshotOut), **describe("Its snapshots, oldest first."))
    backups = fields.List(fields.Nested(VolumeBackupOut), **describe("Its backups, oldest first."))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminVolumeOut(VolumeOut):
    account_id = fields.String(**describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("Email address of the owner.", "ada@example.com"))
    storage_id = fields.String(**describe("Storage id.", EXAMPLE_ID))
    disk_name = fields.String(**describe("Name on the hypervisor.", "v10000001.qcow2"))


class VolumePlanQuery(PageQuery):
    search = Text(maximum=255, **describe("Part of the name.", "data"))


class VolumeQuery(VolumePlanQuery):
    project_id = Text(maximum=36, **describe("Only volumes in this project.", EXAMPLE_ID))


def plan_id_field(**options):
    return Text(maximum=36, **options, **describe("Volume plan id.", EXAMPLE_ID))


def group_id_field(**options):
    return Text(maximum=36, **options, **describe("Location id.", EXAMPLE_ID))


def project_id_field():
    return Text(maximum=36, load_default=None, allow_none=True, **describe("Project id.", EXAMPLE_ID))


class VolumeIn(In):
    name = Name(required=True, **describe("Name of the volume.", "data"))
    volume_plan_id = plan_id_field(required=True)
    hypervisor_group_id = group_id_field(required=True)
    project_id = project_id_field()


class VolumeAttach(In):
    instance_id = Text(maximum=36, required=True, **describe("Id of an instance in the same location.", EXAMPLE_ID))


class VolumeResize(In):
    volume_plan_id = plan_id_field(required=True)


class VolumeSnapshotIn(In):
    name = Name(
        maximum=64,
        minimum=0,
        load_default=None,
        allow_none=True,
        **describe("Name, unique in the volume.", "before-upgrade"),
    )


class VolumeBackupIn(In):
    name = Name(
        minimum=0,
        load_default=None,
        allow_none=True,
        **describe("Name. Defaults to the volume's name and the time.", "before the upgrade"),
    )


class AdminVolumeBackupIn(VolumeBackupIn):
    destination_id = Text(
        maximum=36,
        load_default=None,
        allow_none=True,
        **describe("A destination that is enabled for the volume's hypervisor.", EXAMPLE_ID),
    )


class VolumeRestore(In):
    mode = fields.String(
        required=True,
        validate=validate.OneOf(["in_place", "new_volume"]),
        **describe(
            "`in_place` restores the volume (detached volumes only), `new_volume` creates a new volume.", "in_place"
        ),
    )
    volume_plan_id = plan_id_field(load_default=None, allow_none=True)
    hypervisor_group_id = group_id_field(load_default=None, allow_none=True)
    name = Name(minimum=0, load_default=None, allow_none=True, **describe("Name of the new volume.", "data again"))
    project_id = project_id_field()


class VolumePlanOut(Out):
    id = fields.String(**describe("Volume plan id.", EXAMPLE_ID))
    volume_plan_group_id = fields.String(**describe("Volume plan group (class).", EXAMPLE_ID))
    name = fields.String(**describe("Name of the plan.", "10 GB"))
    position = fields.Integer(**describe("Position in lists, lowest first.", 10))
    enabled = fields.Boolean(**describe("If false, it cannot be selected; existing volumes keep it.", True))
    size = fields.Integer(**describe("Size in GiB.", 10))
    price = fields.Float(**describe("Monthly price in the installation's currency.", 1.5))


class VolumePlanGroupOut(Out):
    id = fields.String(**describe("Volume plan group id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique short name.", "ssd"))
    display_name = fields.String(**describe("Name shown to customers.", "SSD"))
    position = fields.Integer(**describe("Position in lists, lowest first.", 10))
    enabled = fields.Boolean(**describe("If false, none of its plans can be selected.", True))


class Ordered(In):
    position = Int(0, 10_000, **describe("Position in lists, lowest first.", 10))
    enabled = Bool(**describe("If false, it cannot be selected.", True))


def short_name_field(**options):
    return Name(maximum=64, **options, **describe("Unique short name.", "ssd"))


class VolumePlanGroupIn(Ordered):
    name = short_name_field(required=True)
    display_name = Name(**describe("Name shown to customers. Defaults to `name`.", "SSD"))


class VolumePlanGroupPatch(Patch, Ordered):
    name = short_name_field()
    display_name = Name(**describe("Name shown to customers.", "SSD"))


class VolumePlanIn(Ordered):
    volume_plan_group_id = Text(maximum=36, required=True, **describe("Volume plan group (class).", EXAMPLE_ID))
    name = short_name_field(required=True)
    size = Int(1, 65536, required=True, **describe("Size in GiB.", 10))
    price = Number(0, 10**7, **describe("Monthly price in the installation's currency.", 1.5))


class VolumePlanPatch(Patch, Ordered):
    name = short_name_field()
    size = Int(1, 65536, **describe("Size of new volumes in GiB.", 10))
    price = Number(0, 10**7, **describe("Monthly price in the installation's currency.", 1.5))
