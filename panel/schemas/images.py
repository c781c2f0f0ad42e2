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
    public = fields.Boolean(**describe("Whether all customers can select it.", True))
    enabled = fields.Boolean(**describe("If false, it cannot be selected.", True))
    filename = fields.String(**describe("File in the panel's image folder.", "debian-12.qcow2"))
    sha256 = fields.String(**describe("SHA-256 checksum.", "9f86d081884c7d65…"))
    description = fields.String(allow_none=True, **describe("Description shown to customers.", None))
    user_id = fields.String(
        attribute="account_id",
        allow_none=True,
        **describe("Owner of a custom image; null for images of the platform.", None),
    )
    status = fields.String(**describe("`available`, `downloading`, `creating` or `error`.", "available"))
    url = fields.String(allow_none=True, **describe("Download URL.", None))
    publisher_version = fields.String(allow_none=True, **describe("Exact version of the publisher.", "12.5"))
    build_date = fields.Raw(allow_none=True, **describe("Build date of the publisher.", "2026-01-02"))
    release = fields.String(allow_none=True, **describe("Release name of the publisher.", "bookworm"))
    variant = fields.String(allow_none=True, **describe("Image variant of the publisher.", "genericcloud"))
    interface = fields.String(**describe("Disk interface.", "virtio"))
    secure_boot = fields.Boolean(**describe("Whether it supports UEFI secure boot.", True))
    cloud_config = fields.String(allow_none=True, **describe("Default cloud-init configuration.", None))
    download_error = fields.String(allow_none=True, **describe("Why the last download failed.", None))
    download_error_at = Time(allow_none=True, **describe("When it failed.", None))
    download_reset_at = Time(allow_none=True, **describe("When the download was last retried manually.", None))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminImageOut(AdminImageRow):
    hypervisors = fields.List(fields.Nested(GroupRef), **describe("The hypervisors that have a copy."))
    downloads = fields.List(fields.Nested(DownloadOut), **describe("Download of the file to the panel's image folder."))


class ImageQuery(PageQuery):
    purpose = fields.String(
        validate=validate.OneOf(IMAGE_PURPOSES), metadata={"description": "Only images for this purpose."}
    )
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})


SYSTEM_FIELDS = frozenset(AdminImageOut().fields) | {"copies", "account_id", "expected_sha256", "catalog_key"}
"""Fields that the platform writes and clients cannot change."""


class ImagePatch(Patch):
    label = Name(**describe("Display name.", "Debian 12"))
    description = Text(maximum=65536, lines=True, allow_none=True, **describe("Description shown to customers.", None))
    public = Bool(**describe("Whether all customers can select it.", True))
    enabled = Bool(**describe("If false, it cannot be selected.", True))
    purpose = fields.String(validate=validate.OneOf(IMAGE_PURPOSES), **describe("Purpose.", "general"))
    cloudinit = Bool(**describe("Whether the image supports cloud-init.", True))
    secure_boot = Bool(**describe("Whether it supports UEFI secure boot.", True))
    cloud_config = Text(
        maximum=65536,
        lines=True,
        rules=[cloudcfg.validate_cloud_config],
        allow_none=True,
        **describe(
            "Default cloud-init configuration (YAML). The customer's configuration takes precedence.",
            "package_update: true",
        ),
    )
    distro = Name(maximum=64, **describe("The distribution.", "Debian"))
    version = Name(maximum=64, **describe("Version of the distribution.", "12"))
    type = fields.String(
        validate=validate.OneOf(["linux", "windows", "other"]), **describe("Operating system type.", "linux")
    )
    min_disk = Int(1, 1024**2, **describe("Minimum disk size in GiB.", 1))
    min_ram = Int(0, 16 * 1024**2, **describe("Minimum memory in MiB.", 192))

    def handle_error(self, error, data, **options):
        super().handle_error(error, data, **options)
        for field in error.messages.keys() & SYSTEM_FIELDS - self.fields.keys():
            error.messages[field] = [message("Is managed by the system and cannot be changed.")]


class ImageFacts(In):
    """Fields of an image that operators set."""

    name = Name(**describe("Unique short name.", "debian-12"))
    label = Name(**describe("Display name.", "Debian 12"))
    distro = Name(maximum=64, **describe("The distribution.", "Debian"))
    version = Name(maximum=64, **describe("Version of the distribution.", "12"))
    publisher_version = Text(maximum=64, allow_none=True, **describe("Exact version of the publisher.", "12.5"))
    release = Text(maximum=64, allow_none=True, **describe("Release name of the publisher.", "bookworm"))
    variant = Text(maximum=64, allow_none=True, **describe("Image variant of the publisher.", "genericcloud"))
    sha256 = Text(rules=[SHA256_RULE], allow_none=True, **describe("Expected SHA-256 checksum.", "9f86d081" * 8))
    description = Text(maximum=65536, lines=True, allow_none=True, **describe("Description shown to customers.", None))
    public = Bool(**describe("Whether all customers can select it.", True))
    enabled = Bool(**describe("If false, it cannot be selected.", True))
    cloudinit = Bool(**describe("Whether the image supports cloud-init.", True))
    secure_boot = Bool(**describe("Whether it supports UEFI secure boot.", True))
    cloud_config = Text(
        maximum=65536,
        lines=True,
        rules=[cloudcfg.validate_cloud_config],
        allow_none=True,
        **describe(
            "Default cloud-init configuration (YAML). The customer's configuration takes precedence.",
            "package_update: true",
        ),
    )
    type = fields.String(
        validate=validate.OneOf(["linux", "windows", "other"]), **describe("Operating system type.", "linux")
    )
    purpose = fields.String(
        validate=validate.OneOf([value for value in IMAGE_PURPOSES if value != "user"]),
        **describe("Purpose.", "general"),
    )
    min_disk = Int(1, 1024**2, **describe("Minimum disk size in GiB.", 1))
    min_ram = Int(0, 16 * 1024**2, **describe("Minimum memory in MiB.", 192))


class ImageIn(ImageFacts):
    name = Name(required=True, **describe("Unique short name.", "debian-12"))
    url = Text(maximum=2000, minimum=1, required=True, **describe("https URL of a qcow2 file.", "https://…"))
    distro = Name(maximum=64, required=True, **describe("The distribution.", "Debian"))
    version = Name(maximum=64, required=True, **describe("Version of the distribution.", "12"))


class BrowserIn(ImageFacts):
    catalog_id = Text(maximum=128, **describe("Id of the catalog entry.", "debian-12"))
    url = Text(maximum=2000, **describe("https URL of a qcow2 file. Defaults to the URL in the catalog.", "https://…"))
    size = Int(1, 2**53, **describe("File size in bytes, if it is not in the catalog.", 344784896))


class ReleaseIn(In):
    catalog_id = Text(
        maximum=128, **describe("Id of the catalog entry. Defaults to the entry of the image.", "debian-12")
    )


class CatalogQuery(Schema):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})
    distro = fields.String(validate=validate.Length(max=64), metadata={"description": "Only this distribution."})


class CatalogOut(Out):
    id = fields.String(attribute="key", **describe("Id of the catalog entry.", "debian-12"))
    label = fields.String(**describe("Display name.", "Debian 12"))
    distro = fields.String(**describe("The distribution.", "Debian"))
    version = fields.String(**describe("Version of the distribution.", "12"))
    publisher_version = fields.String(allow_none=True, **describe("Exact version of the publisher, if known.", None))
    release = fields.String(allow_none=True, **describe("Release name of the publisher.", "bookworm"))
    variant = fields.String(allow_none=True, **describe("Image variant of the publisher.", "genericcloud"))
    build_date = fields.Raw(allow_none=True, **describe("Build date of the publisher, if known.", None))
    url = fields.String(**describe("Download URL.", "https://…"))
    size = fields.Integer(allow_none=True, **describe("File size in bytes, if known.", None))
    sha256 = fields.String(allow_none=True, **describe("SHA-256 checksum, if known.", None))
