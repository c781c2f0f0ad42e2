"""Volumes and volume plans in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Name, Number, Out, PageQuery, Patch, Text, Time, about

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
VOLUME_STATUSES = ("pending", "available", "attached", "deleting", "failed")
SNAPSHOT_STATUSES = ("creating", "available", "restoring", "deleting", "failed")


class VolumeSnapshotOut(Out):
    id = fields.String(**about("Snapshot id.", EXAMPLE_ID))
    volume_id = fields.String(**about("The volume it is a copy of.", EXAMPLE_ID))
    name = fields.String(**about("Its name, unique in the volume.", "before-upgrade"))
    status = fields.String(validate=validate.OneOf(SNAPSHOT_STATUSES), **about("Where it stands.", "available"))
    size = fields.Integer(attribute="bytes", **about("Bytes.", 10737418240))
    error = fields.String(allow_none=True, **about("Why the last attempt failed.", None))
    created_at = Time(**about("When it was asked for.", "2026-01-02T03:04:05.678Z"))


class PendingOut(Out):
    operation = fields.String(attribute="kind", **about("What is still to be done.", "volume_detach"))
    task_id = fields.String(attribute="id", **about("The task that does it.", EXAMPLE_ID))


class VolumeOut(Out):
    id = fields.String(**about("Volume id.", EXAMPLE_ID))
    name = fields.String(**about("The customer's name for it.", "data"))
    status = fields.String(validate=validate.OneOf(VOLUME_STATUSES), **about("Where it stands.", "available"))
    deployed = fields.Boolean(**about("Whether there is a disk for it.", True))
    size = fields.Integer(**about("GiB that the disk has. After a resize it changes when the disk has grown.", 10))
    volume_plan_id = fields.String(attribute="plan_id", **about("Its plan.", EXAMPLE_ID))
    hypervisor_group_id = fields.String(attribute="group_id", **about("Its location.", EXAMPLE_ID))
    project_id = fields.String(allow_none=True, **about("The project it is in.", None))
    instance_id = fields.String(allow_none=True, **about("The instance it is attached to.", None))
    dev = fields.String(
        allow_none=True, **about("Where the guest finds it; null when detached.", "/dev/disk/by-id/virtio-v10000001")
    )
    path = fields.Constant(None, **about("Always null: where it lies on its node is the platform's affair.", None))
    error = fields.String(allow_none=True, **about("Why the last attempt failed.", None))
    pending = fields.Nested(
        PendingOut,
        allow_none=True,
        **about("The last requested operation while it is not complete; null when nothing is open."),
    )
    snapshots = fields.List(fields.Nested(VolumeSnapshotOut), **about("Its snapshots, oldest first."))
    created_at = Time(**about("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**about("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminVolumeOut(VolumeOut):
    account_id = fields.String(**about("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **about("The owner's email address.", "ada@example.com"))
    storage_id = fields.String(**about("The storage it lies in.", EXAMPLE_ID))
    disk_name = fields.String(**about("What the node calls it.", "v10000001.qcow2"))


class VolumePlanQuery(PageQuery):
    search = Text(maximum=255, **about("Part of the name.", "data"))


class VolumeQuery(VolumePlanQuery):
    project_id = Text(maximum=36, **about("Only volumes in this project.", EXAMPLE_ID))


def plan_id_field(**options):
    return Text(maximum=36, **options, **about("A volume plan.", EXAMPLE_ID))


def group_id_field(**options):
    return Text(maximum=36, **options, **about("The location.", EXAMPLE_ID))


def project_id_field():
    return Text(maximum=36, load_default=None, allow_none=True, **about("A project to put it in.", EXAMPLE_ID))


class VolumeIn(In):
    name = Name(required=True, **about("A name for it.", "data"))
    volume_plan_id = plan_id_field(required=True)
    hypervisor_group_id = group_id_field(required=True)
    project_id = project_id_field()


class VolumeAttach(In):
    instance_id = Text(maximum=36, required=True, **about("The instance, in the same location.", EXAMPLE_ID))


class VolumeResize(In):
    volume_plan_id = plan_id_field(required=True)


class VolumeSnapshotIn(In):
    name = Name(
        maximum=64,
        minimum=0,
        load_default=None,
        allow_none=True,
        **about("A name, unique in the volume.", "before-upgrade"),
    )


class VolumeRestore(In):
    mode = fields.String(
        required=True,
        validate=validate.OneOf(["in_place", "new_volume"]),
        **about("`in_place` puts it back (detached volumes only), `new_volume` makes another volume.", "in_place"),
    )
    volume_plan_id = plan_id_field(load_default=None, allow_none=True)
    hypervisor_group_id = group_id_field(load_default=None, allow_none=True)
    name = Name(minimum=0, load_default=None, allow_none=True, **about("The new volume's name.", "data again"))
    project_id = project_id_field()


class VolumePlanOut(Out):
    id = fields.String(**about("Volume plan id.", EXAMPLE_ID))
    volume_plan_group_id = fields.String(**about("Its class.", EXAMPLE_ID))
    name = fields.String(**about("Its name.", "10 GB"))
    position = fields.Integer(**about("Where it stands in the list: small numbers first.", 10))
    enabled = fields.Boolean(**about("Off: nobody can choose it; volumes keep it.", True))
    size = fields.Integer(**about("GiB.", 10))
    price = fields.Float(**about("A month, in the installation's currency.", 1.5))


class VolumePlanGroupOut(Out):
    id = fields.String(**about("Volume plan group id.", EXAMPLE_ID))
    name = fields.String(**about("A short name, unique.", "ssd"))
    display_name = fields.String(**about("What customers see.", "SSD"))
    position = fields.Integer(**about("Where it stands in the list: small numbers first.", 10))
    enabled = fields.Boolean(**about("Off: none of its plans can be chosen.", True))


class Ordered(In):
    position = Int(0, 10_000, **about("Where it stands in the list: small numbers first.", 10))
    enabled = Bool(**about("Off: nobody can choose it.", True))


def short_name_field(**options):
    return Name(maximum=64, **options, **about("A short name, unique.", "ssd"))


class VolumePlanGroupIn(Ordered):
    name = short_name_field(required=True)
    display_name = Name(**about("What customers see; by default the name.", "SSD"))


class VolumePlanGroupPatch(Patch, Ordered):
    name = short_name_field()
    display_name = Name(**about("What customers see.", "SSD"))


class VolumePlanIn(Ordered):
    volume_plan_group_id = Text(maximum=36, required=True, **about("Its class.", EXAMPLE_ID))
    name = short_name_field(required=True)
    size = Int(1, 65536, required=True, **about("GiB.", 10))
    price = Number(0, 10**7, **about("A month, in the installation's currency.", 1.5))


class VolumePlanPatch(Patch, Ordered):
    name = short_name_field()
    size = Int(1, 65536, **about("GiB that new volumes get.", 10))
    price = Number(0, 10**7, **about("A month, in the installation's currency.", 1.5))
