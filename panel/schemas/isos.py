"""ISOs in the API."""

from marshmallow import fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Name, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID

EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
SHA256_RULE = validate.Regexp(r"\A[0-9a-f]{64}\Z", error=message("Must be 64 hexadecimal digits in lower case."))


class Diagnostics(Out):
    download_error = fields.String(
        allow_none=True, **describe("Why the last download failed; null when there is no problem.", None)
    )
    download_error_at = Time(allow_none=True, **describe("When it failed.", None))
    download_reset_at = Time(allow_none=True, **describe("When the downloads were last begun anew by hand.", None))


class IsoOut(Diagnostics):
    id = fields.String(**describe("ISO id.", EXAMPLE_ID))
    name = fields.String(**describe("What people call it.", "Debian 12 installer"))
    filename = fields.String(**describe("Its file name.", "debian-12.5.0-amd64-netinst.iso"))
    url = fields.String(**describe("Where nodes fetch it from.", "https://example.com/debian-12.iso"))
    sha256 = fields.String(allow_none=True, **describe("The checksum that the file must have.", None))
    size = fields.Integer(allow_none=True, **describe("Bytes; null until a node has it.", 659554304))
    public = fields.Boolean(**describe("Whether every customer may mount it.", True))
    created_at = Time(**describe("When it was added.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class DownloadOut(Out):
    hypervisor_id = fields.String(
        allow_none=True, **describe("The hypervisor; null for the panel's own folder.", EXAMPLE_ID)
    )
    hypervisor_name = fields.String(allow_none=True, **describe("Its name.", "node-1"))
    status = fields.String(**describe("`waiting` for its next attempt, `running`, or `ready`.", "ready"))
    bytes_done = fields.Integer(allow_none=True, **describe("Bytes that have arrived.", 1048576))
    bytes_total = fields.Integer(allow_none=True, **describe("Bytes of the whole file.", 659554304))
    attempts = fields.Integer(**describe("How often it failed in a row.", 0))
    error = fields.String(allow_none=True, **describe("Why it failed last.", None))
    error_at = Time(allow_none=True, **describe("When it failed last.", None))
    next_attempt_at = Time(allow_none=True, **describe("When it is tried again.", None))
    updated_at = Time(**describe("When it last moved.", EXAMPLE_TIME))


class AdminIsoRow(IsoOut):
    enabled = fields.Boolean(**describe("Off: nobody can mount it.", True))
    user_id = fields.String(attribute="account_id", allow_none=True, **describe("Whose own ISO it is.", None))


class AdminIsoOut(AdminIsoRow):
    downloads = fields.List(fields.Nested(DownloadOut), **describe("Where the file is, or is going."))


class IsoQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})


class IsoIn(In):
    url = Text(
        maximum=2000, minimum=1, required=True, **describe("An https address.", "https://example.com/debian-12.iso")
    )
    name = Name(**describe("What people call it; by default its file name.", "Debian 12 installer"))
    filename = fields.String(
        **describe("Letters, digits, dots, underscores and hyphens; by default the last part of the address.", "a.iso")
    )
    sha256 = Text(
        rules=[SHA256_RULE], allow_none=True, **describe("The checksum that the file must have.", "9f86d081" * 8)
    )


class AdminIsoIn(IsoIn):
    public = Bool(**describe("Whether every customer may mount it; by default yes.", True))


class IsoPatch(Patch):
    name = Name(**describe("What people call it.", "Debian 12 installer"))
    filename = fields.String(**describe("Letters, digits, dots, underscores and hyphens.", "debian-12.iso"))
    public = Bool(**describe("Whether every customer may mount it.", True))
    enabled = Bool(**describe("Off: nobody can mount it.", True))
