"""Backup destinations in the admin API."""

from marshmallow import ValidationError, fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Name, Out, Patch, Text, Time, describe
from panel.schemas.hypervisors import EXAMPLE_ID, FOLDER_RULE

BACKUP_STORAGE_TYPES = ("local", "s3", "rclone", "rbs")
DESTINATION_STATUSES = ("unknown", "available", "unavailable")
DEFAULT_RBS_PORT = 8007
MAX_STORAGE_NAME = 100
MAX_BANDWIDTH_LIMIT = 100_000
"""MiB per second."""
MAX_COPY_RETENTION_DAYS = 3650

ENDPOINT_RULE = validate.Regexp(
    r"\Ahttps?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~-]+)*/?\Z",
    error=message("Must be a URL such as https://s3.example.com."),
)
BUCKET_RULE = validate.Regexp(
    r"\A[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z",
    error=message("Must be 3 to 63 lowercase letters, digits, dots and hyphens."),
)
PREFIX_RULE = validate.Regexp(
    r"\A([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?\Z",
    error=message("Must be a folder such as backups/panel, without slashes at its ends."),
)
REGION_RULE = validate.Regexp(r"\A[A-Za-z0-9-]+\Z", error=message("Only letters, digits and hyphens are allowed."))
REMOTE_RULE = validate.Regexp(
    r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\Z", error=message("Only letters, digits, dots, hyphens and underscores.")
)
KEY_RULE = validate.Regexp(r"\A[!-~]+\Z", error=message("Must be printable characters without spaces."))

HOST_RULE = validate.Regexp(
    r"\A([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]+)\Z",
    error=message("Must be a host name or an IP address."),
)
DATASTORE_RULE = validate.Regexp(
    r"\A[A-Za-z0-9_][A-Za-z0-9._-]*\Z", error=message("Only letters, digits, dots, hyphens and underscores.")
)
NAMESPACE_RULE = validate.Regexp(
    r"\A([A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*){0,6})?\Z",
    error=message("Must be at most 7 names such as panel/customers, without slashes at its ends."),
)
AUTH_ID_RULE = validate.Regexp(
    r"\A[^\s:/@!]+@[A-Za-z0-9_][A-Za-z0-9._-]*![A-Za-z0-9_][A-Za-z0-9._-]*\Z",
    error=message("Must be an API token such as panel@pbs!backups."),
)
FINGERPRINT_RULE = validate.Regexp(
    r"\A([0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){31}|[0-9A-Fa-f]{64})\Z",
    error=message("Must be a SHA-256 fingerprint: 64 hexadecimal digits, with or without colons."),
)


class SwitchOrName(fields.Field):
    """A boolean, or a name."""

    def _deserialize(self, value, attr, data, **kwargs):
        if isinstance(value, bool) or (isinstance(value, str) and len(value) <= MAX_STORAGE_NAME):
            return value
        raise ValidationError(message("Must be true, false or a name."))


class DestinationConfig(In):
    """The settings of every kind. Services require those of the chosen one."""

    path = Text(
        rules=[FOLDER_RULE],
        **describe(
            "`local`: directory that every worker can reach at this path. It is created if necessary.", "/srv/backups"
        ),
    )
    endpoint = Text(
        rules=[ENDPOINT_RULE], **describe("`s3`: http or https URL of the server.", "https://s3.example.com")
    )
    bucket = Text(rules=[BUCKET_RULE], **describe("`s3`: an existing bucket.", "panel-backups"))
    path_prefix = Text(
        rules=[PREFIX_RULE],
        **describe(
            "`s3`, `rclone`: folder in the bucket or remote, without slashes at its ends. Empty: its root.",
            "backups",
        ),
    )
    region = Text(maximum=64, rules=[REGION_RULE], **describe("`s3`: region. Default `us-east-1`.", "eu-central-1"))
    path_style = Bool(
        **describe(
            "`s3`: whether the name of the bucket is part of the path instead of the host name. Default true.", True
        )
    )
    access_key = Text(rules=[KEY_RULE], **describe("`s3`: id of the access key.", "BACKUPS7EXAMPLE"))
    remote = Text(
        maximum=64,
        rules=[REMOTE_RULE],
        **describe("`rclone`: name of a remote in the rclone configuration, which every worker must have.", "offsite"),
    )
    secret_key = Text(
        **describe(
            "`s3`: secret of the access key, required with a new `access_key`. Blank: keep the current one.",
            "wJalrXUtnFEMI7EXAMPLEKEY",
        )
    )
    host = Text(
        maximum=253, rules=[HOST_RULE], **describe("`rbs`: host name or address of the server.", "pbs.example.com")
    )
    port = Int(1, 65535, **describe("`rbs`: port. Default 8007.", 8007))
    datastore = Text(maximum=64, rules=[DATASTORE_RULE], **describe("`rbs`: an existing datastore.", "backups"))
    namespace = Text(
        maximum=256,
        rules=[NAMESPACE_RULE],
        **describe("`rbs`: existing namespace of the datastore. Empty: its root.", "panel"),
    )
    auth_id = Text(
        maximum=192, rules=[AUTH_ID_RULE], **describe("`rbs`: API token, as user@realm!token.", "panel@pbs!backups")
    )
    token_secret = Text(
        **describe(
            "`rbs`: secret of the API token, required with a new `auth_id`. Blank: keep the current one.",
            "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d",
        )
    )
    fingerprint = Text(
        rules=[FINGERPRINT_RULE],
        **describe("`rbs`: SHA-256 fingerprint of the server's certificate. No other is accepted.", "AB:" * 31 + "CD"),
    )
    verify_after_backup = Bool(**describe("`rbs`: whether the server verifies each new backup.", True))
    rbs_managed_retention = Bool(
        **describe("`rbs`: whether only prune jobs of the server delete old backups, and not backup policies.", False)
    )
    live_restore = Bool(**describe("`rbs`: stored for clients that send it; it changes nothing.", False))
    fleecing_storage = SwitchOrName(**describe("`rbs`: stored for clients that send it; it changes nothing.", False))


class Config(fields.Nested):
    """A nested object, whose errors name it."""

    def _deserialize(self, value, attr, data, **kwargs):
        if not isinstance(value, dict):
            raise ValidationError(message("Must be an object."))
        return super()._deserialize(value, attr, data, **kwargs)


def build_fields(*, required):
    """Return the fields of a body. Those without `required` stay as they are in a change."""
    return {
        "name": Name(maximum=64, required=required, **describe("Unique name.", "backups-1")),
        "storage_type": fields.String(
            required=required,
            validate=validate.OneOf(BACKUP_STORAGE_TYPES),
            **describe(
                "Kind of storage. `local`: a directory. `s3`: a bucket of an S3 server. `rclone`: a remote of rclone. "
                "`rbs`: a datastore of a Proxmox Backup Server.",
                "local",
            ),
        ),
        "config": Config(
            DestinationConfig,
            required=required,
            **describe("Settings of this kind of storage. They are never returned."),
        ),
        "enabled": Bool(**describe("Whether new backups are stored there.", True)),
        "bandwidth_limit": Int(
            0,
            MAX_BANDWIDTH_LIMIT,
            **describe("MiB per second at which one backup reads disks; 0 means unlimited.", 100),
        ),
        "copy_to_id": Text(
            maximum=36,
            allow_none=True,
            **describe(
                "The destination to which new backups are copied, or null. Neither may be of the kind `rbs`.",
                EXAMPLE_ID,
            ),
        ),
        "copy_retention_days": Int(
            1,
            MAX_COPY_RETENTION_DAYS,
            **describe("Days for which these copies cannot be deleted. Default 30. Existing copies keep theirs.", 30),
        ),
        "hypervisor_ids": fields.List(
            Text(maximum=36),
            validate=validate.Length(max=1000),
            **describe("Hypervisors whose backups are stored there. Empty: all hypervisors.", [EXAMPLE_ID]),
        ),
    }


BackupDestinationIn = In.from_dict(build_fields(required=True), name="BackupDestinationIn")
BackupDestinationPatch = Patch.from_dict(build_fields(required=False), name="BackupDestinationPatch")


class BackupDestinationOut(Out):
    id = fields.String(**describe("Destination id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique name.", "backups-1"))
    storage_type = fields.String(validate=validate.OneOf(BACKUP_STORAGE_TYPES), **describe("Kind.", "local"))
    enabled = fields.Boolean(**describe("Whether new backups are stored there.", True))
    bandwidth_limit = fields.Integer(
        **describe("MiB per second at which one backup reads disks; 0 means unlimited.", 100)
    )
    copy_to_id = fields.String(
        allow_none=True, **describe("The destination to which new backups are copied, if any.", None)
    )
    copy_retention_days = fields.Integer(**describe("Days for which these copies cannot be deleted.", 30))
    all_hypervisors = fields.Boolean(**describe("Whether it is for backups of all hypervisors.", False))
    hypervisor_ids = fields.List(
        fields.String(),
        **describe("The hypervisors whose backups are stored there, unless it is for all.", [EXAMPLE_ID]),
    )
    status = fields.String(
        validate=validate.OneOf(DESTINATION_STATUSES), **describe("Result of the last check.", "available")
    )
    status_detail = fields.String(allow_none=True, **describe("Why it is unavailable.", None))
    checked_at = Time(allow_none=True, **describe("When a worker last checked it.", "2026-01-02T03:04:05.678Z"))
    capacity = fields.Integer(
        allow_none=True, **describe("Size of its file system in bytes; null if it has none.", 1099511627776)
    )
    free = fields.Integer(
        allow_none=True, **describe("Free bytes of its file system; null if it has none.", 549755813888)
    )
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class DestinationCheckStep(Out):
    name = fields.String(
        validate=validate.OneOf(
            ("reachability", "authentication", "bucket", "write_access", "namespace", "privileges")
        ),
        **describe(
            "`reachability` of the storage, `authentication` and `bucket` of an S3 server, or `write_access`; of a "
            "backup server `reachability` (with the fingerprint), `authentication`, `namespace` and `privileges`.",
            "reachability",
        ),
    )
    success = fields.Boolean(**describe("Whether the step succeeded.", True))
    message = fields.String(allow_none=True, **describe("Why it failed, or what to consider.", None))


class DestinationCheckOut(Out):
    passed = fields.Boolean(**describe("Whether all steps succeeded.", True))
    checked_at = Time(**describe("When the worker checked it.", "2026-01-02T03:04:05.678Z"))
    steps = fields.List(
        fields.Nested(DestinationCheckStep),
        attribute="check_steps",
        **describe("Steps up to the first that failed."),
    )


class DestinationCreated(Out):
    storage_id = fields.String(**describe("Id of the new destination.", EXAMPLE_ID))


class FingerprintIn(In):
    host = Text(maximum=253, rules=[HOST_RULE], required=True, **describe("Host name or address.", "pbs.example.com"))
    port = Int(1, 65535, load_default=DEFAULT_RBS_PORT, **describe("Port.", 8007))


class FingerprintOut(Out):
    fingerprint = fields.String(
        **describe("SHA-256 fingerprint of the certificate that the server presents.", "AB:" * 31 + "CD")
    )
