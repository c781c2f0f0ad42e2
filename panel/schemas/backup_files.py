"""Files of backups in the API."""

from marshmallow import Schema, fields, validate

from panel.schemas.base import Out, Text, Time, describe

SESSION_STATES = ("preparing", "ready", "failed", "closing")
ENTRY_TYPES = ("d", "f")
MAX_PATH_CHARACTERS = 8192
EXAMPLE_PATH = "/disk-1-partition-1/etc/hosts"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"


class BackupFilesQuery(Schema):
    filepath = Text(
        maximum=MAX_PATH_CHARACTERS,
        load_default="/",
        **describe("A folder; `/` lists the file systems of the disks.", "/disk-1-partition-1/etc"),
    )
    after = Text(maximum=MAX_PATH_CHARACTERS, load_default="", **describe("`next` of the previous answer.", "hostname"))


class BackupFileDownloadQuery(Schema):
    filepath = Text(
        maximum=MAX_PATH_CHARACTERS,
        load_default="/",
        **describe("Required. A file, or a folder, which is sent as a tar archive.", EXAMPLE_PATH),
    )


class BackupVolumeOut(Out):
    name = fields.String(**describe("Its folder.", "disk-1-partition-1"))
    kind = fields.String(**describe("Kind of file system.", "ext4"))
    label = fields.String(**describe("Its label, or empty.", "root"))
    size = fields.Integer(allow_none=True, **describe("Bytes.", 10736352768))
    error = fields.String(
        allow_none=True,
        validate=validate.OneOf(("encrypted", "unsupported", "damaged")),
        **describe("Why it cannot be read.", None),
    )


class BackupFileSessionOut(Out):
    state = fields.String(validate=validate.OneOf(SESSION_STATES), **describe("Current state.", "ready"))
    error = fields.String(allow_none=True, **describe("Why the files could not be opened.", None))
    volumes = fields.List(
        fields.Nested(BackupVolumeOut), attribute="volume_facts", **describe("The file systems of the disks.")
    )
    expires_at = Time(**describe("When it ends unless it is used again.", EXAMPLE_TIME))
    ends_at = Time(**describe("When it ends in any case.", EXAMPLE_TIME))


class BackupFileOut(Out):
    filepath = fields.String(
        **describe("Path. Bytes that are not printable UTF-8 are written as %XX, and so is `%`.", EXAMPLE_PATH)
    )
    type = fields.String(validate=validate.OneOf(ENTRY_TYPES), **describe("`d`: a folder. `f`: anything else.", "f"))
    kind = fields.String(
        validate=validate.OneOf(("folder", "file", "link", "other", "damaged")),
        **describe("What it is. `other`: a device, pipe or socket.", "file"),
    )
    size = fields.Integer(allow_none=True, **describe("Size of a file in bytes.", 158))
    modified_at = fields.Integer(allow_none=True, **describe("Last change, in seconds since 1970.", 1767323045))
    target = fields.String(allow_none=True, **describe("Where a symbolic link leads. It is not followed.", None))
