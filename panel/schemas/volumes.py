"""Volumes and volume plans in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Name, Number, Out, PageQuery, Patch, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
VOLUME_STATUSES = ("pending", "available", "attached", "deleting", "failed")
SNAPSHOT_STATUSES = ("creating", "available", "restoring", "deleting", "failed")


class VolumeSnapshotOut(Out):
    id = fields.String(**describe("Snapshot id.", EXAMPLE_ID))
    volume_id = fields.String(**describe("The volume it is a copy of.", EXAMPLE_ID))
    name = fields.String(**describe("Its name, unique in the volume.", "before-upgrade"))
    status = fields.String(validate=validate.OneOf(SNAPSHOT_STATUSES), **describe("Where it stands.", "available"))
    size = fields.Integer(attribute="bytes", **describe("Bytes.", 10737418240))
    error = fields.String(allow_none=True, **describe("Why the last attempt failed.", None))
    created_at = Time(**describe("When it was asked for.", "2026-01-02T03:04:05.678Z"))


class PendingOut(Out):
    operation = fields.String(attribute="kind", **describe("What is still to be done.", "volume_detach"))
    task_id = fields.String(attribute="id", **describe("The task that does it.", EXAMPLE_ID))


class VolumeOut(Out):
    id = fields.String(**describe("Volume id.", EXAMPLE_ID))
    name = fields.String(**describe("The customer's name for it.", "data"))
    status = fields.String(validate=validate.OneOf(VOLUME_STATUSES), **describe("Where it stands.", "available"))
    deployed = fields.Boolean(**describe("Whether there is a disk for it.", True))
    size = fields.Integer(**describe("GiB that the disk has. After a resize it changes when the disk has grown.", 10))
    volume_plan_id = fields.String(attribute="plan_id", **describe("Its plan.", EXAMPLE_ID))
    hypervisor_group_id = fields.String(attribute="group_id", **describe("Its location.", EXAMPLE_ID))
    project_id = fields.String(allow_none=True, **describe("The project it is in.", None))
    instance_id = fields.String(allow_none=True, **describe("The instance it is attached to.", None))
    dev = fields.String(
        allow_none=True, **describe("Where the guest finds it; null when detached.", "/dev/disk/by-id/virtio-v10000001")
    )
    path = fields.Constant(None, **describe("Always null: where it lies on its node is the platform's affair.", None))
    error = fields.String(allow_none=True, **describe("Why the last attempt failed.", None))
    pending = fields.Nested(
        PendingOut,
        allow_none=True,
        **describe("The last requested operation while it is not complete; null when nothing is open."),
    )
    snapshots = fields.List(fields.Nested(VolumeSnapshotOut), **describe("Its snapshots, oldest first."))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminVolumeOut(VolumeOut):
    account_id = fields.String(**describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("The owner's email address.", "ada@example.com"))
    storage_id = fields.String(**describe("The storage it lies in.", EXAMPLE_ID))
    disk_name = fields.String(**describe("What the node calls it.", "v10000001.qcow2"))


class VolumePlanQuery(PageQuery):
    search = Text(maximum=255, **describe("Part of the name.", "data"))


class VolumeQuery(VolumePlanQuery):
    project_id = Text(maximum=36, **describe("Only volumes in this project.", EXAMPLE_ID))


def plan_id_field(**options):
    return Text(maximum=36, **options, **describe("A volume plan.", EXAMPLE_ID))


def group_id_field(**options):
    return Text(maximum=36, **options, **describe("The location.", EXAMPLE_ID))


def project_id_field():
    return Text(maximum=36, load_default=None, allow_none=True, **describe("A project to put it in.", EXAMPLE_ID))


class VolumeIn(In):
    name = Name(required=True, **describe("A name for it.", "data"))
    volume_plan_id = plan_id_field(required=True)
    hypervisor_group_id = group_id_field(required=True)
    project_id = project_id_field()


class VolumeAttach(In):
    instance_id = Text(maximum=36, required=True, **describe("The instance, in the same location.", EXAMPLE_ID))


class VolumeResize(In):
    volume_plan_id = plan_id_field(required=True)


class VolumeSnapshotIn(In):
    name = Name(
        maximum=64,
        minimum=0,
        load_default=None,
        allow_none=True,
        **describe("A name, unique in the volume.", "before-upgrade"),
    )


class VolumeRestore(In):
    mode = fields.String(
        required=True,
        validate=validate.OneOf(["in_place", "new_volume"]),
        **describe("`in_place` puts it back (detached volumes only), `new_volume` makes another volume.", "in_place"),
    )
    volume_plan_id = plan_id_field(load_default=None, allow_none=True)
    hypervisor_group_id = group_id_field(load_default=None, allow_none=True)
    name = Name(minimum=0, load_default=None, allow_none=True, **describe("The new volume's name.", "data again"))
    project_id = project_id_field()


class VolumePlanOut(Out):
    id = fields.String(**describe("Volume plan id.", EXAMPLE_ID))
    volume_plan_group_id = fields.String(**describe("Its class.", EXAMPLE_ID))
    name = fields.String(**describe("Its name.", "10 GB"))
    position = fields.Integer(**describe("Where it stands in the list: small numbers first.", 10))
    enabled = fields.Boolean(**describe("Off: nobody can choose it; volumes keep it.", True))
    size = fields.Integer(**describe("GiB.", 10))
    price = fields.Float(**describe("A month, in the installation's currency.", 1.5))


class VolumePlanGroupOut(Out):
    id = fields.String(**describe("Volume plan group id.", EXAMPLE_ID))
    name = fields.String(**describe("A short name, unique.", "ssd"))
    display_name = fields.String(**describe("What customers see.", "SSD"))
    position = fields.Integer(**describe("Where it stands in the list: small numbers first.", 10))
    enabled = fields.Boolean(**describe("Off: none of its plans can be chosen.", True))


class Ordered(In):
    position = Int(0, 10_000, **describe("Where it stands in the list: small numbers first.", 10))
    enabled = Bool(**describe("Off: nobody can choose it.", True))


def short_name_field(**options):
    return Name(maximum=64, **options, **describe("A short name, unique.", "ssd"))


class VolumePlanGroupIn(Ordered):
    name = short_name_field(required=True)
    display_name = Name(**describe("What customers see; by default the name.", "SSD"))


class VolumePlanGroupPatch(Patch, Ordered):
    name = short_name_field()
    display_name = Name(**describe("What customers see.", "SSD"))


class VolumePlanIn(Ordered):
    volume_plan_group_id = Text(maximum=36, required=True, **describe("Its class.", EXAMPLE_ID))
    name = short_name_field(required=True)
    size = Int(1, 65536, required=True, **describe("GiB.", 10))
    price = Number(0, 10**7, **describe("A month, in the installation's currency.", 1.5))


class VolumePlanPatch(Patch, Ordered):
    name = short_name_field()
    size = Int(1, 65536, **describe("GiB that new volumes get.", 10))
    price = Number(0, 10**7, **describe("A month, in the installation's currency.", 1.5))
