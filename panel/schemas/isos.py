"""ISOs in the API."""

from marshmallow import fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Name, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
SHA256_RULE = validate.Regexp(r"\A[0-9a-f]{64}\Z", error=message("Must be 64 hexadecimal digits in lower case."))


class Diagnostics(Out):
    download_error = fields.String(
        allow_none=True, **describe("Why the last download failed; null if there is no problem.", None)
    )
    download_error_at = Time(allow_none=True, **describe("When the last download failed.", None))
    download_reset_at = Time(allow_none=True, **describe("When the downloads were last retried manually.", None))


class IsoOut(Diagnostics):
    id = fields.String(**describe("ISO id.", EXAMPLE_ID))
    name = fields.String(**describe("Display name.", "Debian 12 installer"))
    filename = fields.String(**describe("Its file name.", "debian-12.5.0-amd64-netinst.iso"))
    url = fields.String(**describe("Download URL.", "https://example.com/debian-12.iso"))
    sha256 = fields.String(allow_none=True, **describe("Expected SHA-256 checksum.", None))
    size = fields.Integer(allow_none=True, **describe("Size in bytes; null until it is downloaded.", 659554304))
    public = fields.Boolean(**describe("Whether all customers can mount it.", True))
    created_at = Time(**describe("When it was added.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class DownloadOut(Out):
    hypervisor_id = fields.String(
        allow_none=True, **describe("The hypervisor; null for the panel's image folder.", EXAMPLE_ID)
    )
    hypervisor_name = fields.String(allow_none=True, **describe("Its name.", "node-1"))
    status = fields.String(**describe("`waiting` for its next attempt, `running`, or `ready`.", "ready"))
    bytes_done = fields.Integer(allow_none=True, **describe("Downloaded bytes.", 1048576))
    bytes_total = fields.Integer(allow_none=True, **describe("File size in bytes.", 659554304))
    attempts = fields.Integer(**describe("Number of consecutive failures.", 0))
    error = fields.String(allow_none=True, **describe("Error of the last failure.", None))
    error_at = Time(allow_none=True, **describe("Time of the last failure.", None))
    next_attempt_at = Time(allow_none=True, **describe("Time of the next attempt.", None))
    updated_at = Time(**describe("Time of the last progress.", EXAMPLE_TIME))


class AdminIsoRow(IsoOut):
    enabled = fields.Boolean(**describe("If false, it cannot be mounted.", True))
    user_id = fields.String(
        attribute="account_id", allow_none=True, **describe("Owner of the ISO; null for ISOs of the platform.", None)
    )


class AdminIsoOut(AdminIsoRow):
    downloads = fields.List(fields.Nested(DownloadOut), **describe("Downloads of the file, by hypervisor."))


class IsoQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})


class IsoIn(In):
    url = Text(maximum=2000, minimum=1, required=True, **describe("https URL.", "https://example.com/debian-12.iso"))
    name = Name(**describe("Display name. Defaults to the file name.", "Debian 12 installer"))
    filename = fields.String(
        **describe("Letters, digits, dots, underscores and hyphens. Defaults to the last part of the URL.", "a.iso")
    )
    sha256 = Text(rules=[SHA256_RULE], allow_none=True, **describe("Expected SHA-256 checksum.", "9f86d081" * 8))


class AdminIsoIn(IsoIn):
    public = Bool(**describe("Whether all customers can mount it. Defaults to true.", True))


class IsoPatch(Patch):
    name = Name(**describe("Display name.", "Debian 12 installer"))
    filename = fields.String(**describe("Letters, digits, dots, underscores and hyphens.", "debian-12.iso"))
    public = Bool(**describe("Whether all customers can mount it.", True))
    enabled = Bool(**describe("If false, it cannot be mounted.", True))
