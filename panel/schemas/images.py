"""Images in the operators' API."""

from marshmallow import Schema, fields, validate

from panel.core.messages import message
from panel.schemas import cloudcfg
from panel.schemas.base import Bool, In, Int, Name, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import ImageOut
from panel.schemas.constants import IMAGE_PURPOSES
from panel.schemas.hypervisors import GroupRef
from panel.schemas.isos import SHA256_RULE, DownloadOut


class AdminImageRow(ImageOut):
    public = fields.Boolean(**describe("Whether every customer may choose it.", True))
    enabled = fields.Boolean(**describe("Off: nobody can choose it.", True))
    filename = fields.String(**describe("The file in the panel's image folder.", "debian-12.qcow2"))
    sha256 = fields.String(**describe("Checksum of the file.", "9f86d081884c7d65…"))
    description = fields.String(allow_none=True, **describe("A note that customers see.", None))
    user_id = fields.String(attribute="account_id", allow_none=True, **describe("Whose captured image it is.", None))
    status = fields.String(**describe("`available`, `downloading`, `creating` or `error`.", "available"))
    url = fields.String(allow_none=True, **describe("Where its file is from.", None))
    publisher_version = fields.String(allow_none=True, **describe("The exact version.", "12.5"))
    build_date = fields.Raw(allow_none=True, **describe("When the publisher made it.", "2026-01-02"))
    release = fields.String(allow_none=True, **describe("The publisher's name of the version.", "bookworm"))
    variant = fields.String(allow_none=True, **describe("Which of the publisher's kinds.", "genericcloud"))
    interface = fields.String(**describe("How its disk is attached.", "virtio"))
    secure_boot = fields.Boolean(**describe("Whether it also starts by UEFI with secure boot.", True))
    cloud_config = fields.String(allow_none=True, **describe("First-boot configuration below the customer's.", None))
    download_error = fields.String(allow_none=True, **describe("Why the last download failed.", None))
    download_error_at = Time(allow_none=True, **describe("When it failed.", None))
    download_reset_at = Time(allow_none=True, **describe("When the download was last begun anew by hand.", None))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminImageOut(AdminImageRow):
    hypervisors = fields.List(fields.Nested(GroupRef), **describe("The hypervisors that have a copy."))
    downloads = fields.List(fields.Nested(DownloadOut), **describe("How its file comes to the panel's folder."))


class ImageQuery(PageQuery):
    purpose = fields.String(
        validate=validate.OneOf(IMAGE_PURPOSES), metadata={"description": "Only images for this purpose."}
    )
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})


SYSTEM_FIELDS = frozenset(AdminImageOut().fields) | {"copies", "account_id", "expected_sha256", "catalog_key"}
"""Fields that the platform writes and clients cannot change."""


class ImagePatch(Patch):
    label = Name(**describe("What people call it.", "Debian 12"))
    description = Text(maximum=65536, lines=True, allow_none=True, **describe("A note that customers see.", None))
    public = Bool(**describe("Whether every customer may choose it.", True))
    enabled = Bool(**describe("Off: nobody can choose it.", True))
    purpose = fields.String(validate=validate.OneOf(IMAGE_PURPOSES), **describe("What it is for.", "general"))
    cloudinit = Bool(**describe("Whether it reads a first-boot configuration.", True))
    secure_boot = Bool(**describe("Whether it also starts by UEFI with secure boot.", True))
    cloud_config = Text(
        maximum=65536,
        lines=True,
        rules=[cloudcfg.validate_cloud_config],
        allow_none=True,
        **describe("First-boot configuration (YAML) below the customer's, which wins.", "package_update: true"),
    )
    distro = Name(maximum=64, **describe("The distribution.", "Debian"))
    version = Name(maximum=64, **describe("Its version.", "12"))
    type = fields.String(validate=validate.OneOf(["linux", "windows", "other"]), **describe("Kind of system.", "linux"))
    min_disk = Int(1, 1024**2, **describe("GiB of disk it needs.", 1))
    min_ram = Int(0, 16 * 1024**2, **describe("MiB of memory it needs.", 192))

    def handle_error(self, error, data, **options):
        super().handle_error(error, data, **options)
        for field in error.messages.keys() & SYSTEM_FIELDS - self.fields.keys():
            error.messages[field] = [message("Is managed by the system and cannot be changed.")]


class ImageFacts(In):
    """Fields of an image that operators set."""

    name = Name(**describe("A short name, unique.", "debian-12"))
    label = Name(**describe("What people call it.", "Debian 12"))
    distro = Name(maximum=64, **describe("The distribution.", "Debian"))
    version = Name(maximum=64, **describe("Its version.", "12"))
    publisher_version = Text(maximum=64, allow_none=True, **describe("The exact version.", "12.5"))
    release = Text(maximum=64, allow_none=True, **describe("The publisher's name of the version.", "bookworm"))
    variant = Text(maximum=64, allow_none=True, **describe("Which of the publisher's kinds.", "genericcloud"))
    sha256 = Text(
        rules=[SHA256_RULE], allow_none=True, **describe("The checksum that the file must have.", "9f86d081" * 8)
    )
    description = Text(maximum=65536, lines=True, allow_none=True, **describe("A note that customers see.", None))
    public = Bool(**describe("Whether every customer may choose it.", True))
    enabled = Bool(**describe("Off: nobody can choose it.", True))
    cloudinit = Bool(**describe("Whether it reads a first-boot configuration.", True))
    secure_boot = Bool(**describe("Whether it also starts by UEFI with secure boot.", True))
    cloud_config = Text(
        maximum=65536,
        lines=True,
        rules=[cloudcfg.validate_cloud_config],
        allow_none=True,
        **describe("First-boot configuration (YAML) below the customer's, which wins.", "package_update: true"),
    )
    type = fields.String(validate=validate.OneOf(["linux", "windows", "other"]), **describe("Kind of system.", "linux"))
    purpose = fields.String(
        validate=validate.OneOf([value for value in IMAGE_PURPOSES if value != "user"]),
        **describe("What it is for.", "general"),
    )
    min_disk = Int(1, 1024**2, **describe("GiB of disk it needs.", 1))
    min_ram = Int(0, 16 * 1024**2, **describe("MiB of memory it needs.", 192))


class ImageIn(ImageFacts):
    name = Name(required=True, **describe("A short name, unique.", "debian-12"))
    url = Text(maximum=2000, minimum=1, required=True, **describe("An https address of a qcow2 file.", "https://…"))
    distro = Name(maximum=64, required=True, **describe("The distribution.", "Debian"))
    version = Name(maximum=64, required=True, **describe("Its version.", "12"))


class BrowserIn(ImageFacts):
    catalog_id = Text(maximum=128, **describe("A row of the catalog.", "debian-12"))
    url = Text(maximum=2000, **describe("An https address of a qcow2 file; by default the catalog's.", "https://…"))
    size = Int(1, 2**53, **describe("Bytes of the file, when the catalog does not know them.", 344784896))


class ReleaseIn(In):
    catalog_id = Text(maximum=128, **describe("The row of the catalog; by default the one it is from.", "debian-12"))


class CatalogQuery(Schema):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})
    distro = fields.String(validate=validate.Length(max=64), metadata={"description": "Only this distribution."})


class CatalogOut(Out):
    id = fields.String(attribute="key", **describe("The row's id.", "debian-12"))
    label = fields.String(**describe("What people call it.", "Debian 12"))
    distro = fields.String(**describe("The distribution.", "Debian"))
    version = fields.String(**describe("Its version.", "12"))
    publisher_version = fields.String(allow_none=True, **describe("The exact version, where known.", None))
    release = fields.String(allow_none=True, **describe("The publisher's name of the version.", "bookworm"))
    variant = fields.String(allow_none=True, **describe("Which of the publisher's kinds.", "genericcloud"))
    build_date = fields.Raw(allow_none=True, **describe("When the publisher made it, where known.", None))
    url = fields.String(**describe("Where its file is.", "https://…"))
    size = fields.Integer(allow_none=True, **describe("Bytes of the file, where known.", None))
    sha256 = fields.String(allow_none=True, **describe("Checksum of the file, where known.", None))
