"""Images as operators see them."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, Int, PageQuery, Patch, Text, Time, about
from panel.schemas.catalog import ImageOut
from panel.schemas.hypervisors import GroupRef
from panel.schemas.words import PURPOSES


class AdminImageRow(ImageOut):
    public = fields.Boolean(**about("Whether every customer may choose it.", True))
    enabled = fields.Boolean(**about("Off: nobody can choose it.", True))
    filename = fields.String(**about("The file in the panel's image folder.", "debian-12.qcow2"))
    sha256 = fields.String(**about("Checksum of the file.", "9f86d081884c7d65…"))
    description = fields.String(allow_none=True, **about("A note that customers see.", None))
    user_id = fields.String(attribute="account_id", allow_none=True, **about("Whose captured image it is.", None))
    created_at = Time(**about("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**about("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminImageOut(AdminImageRow):
    hypervisors = fields.List(fields.Nested(GroupRef), **about("The hypervisors that have a copy."))


class ImageQuery(PageQuery):
    purpose = fields.String(
        validate=validate.OneOf(PURPOSES), metadata={"description": "Only images for this purpose."}
    )
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})


SYSTEM = frozenset(AdminImageOut._declared_fields) | {"status", "url", "copies", "account_id", "download_error"}
"""What the platform itself writes, apart from the fields below."""


class ImagePatch(Patch):
    label = Text(least=1, **about("What people call it.", "Debian 12"))
    description = Text(most=65536, lines=True, allow_none=True, **about("A note that customers see.", None))
    public = Bool(**about("Whether every customer may choose it.", True))
    enabled = Bool(**about("Off: nobody can choose it.", True))
    purpose = fields.String(validate=validate.OneOf(PURPOSES), **about("What it is for.", "general"))
    cloudinit = Bool(**about("Whether it reads a first-boot configuration.", True))
    min_disk = Int(1, 1024**2, **about("GiB of disk it needs.", 1))
    min_ram = Int(0, 16 * 1024**2, **about("MiB of memory it needs.", 192))

    def handle_error(self, error, data, **options):
        super().handle_error(error, data, **options)
        for field in error.messages.keys() & SYSTEM - self.fields.keys():
            error.messages[field] = ["Is managed by the system and cannot be changed."]
