"""The kinds of backup destinations that the form offers, each with the fields of its settings."""

from dataclasses import dataclass

from panel.web.translation import lazy_gettext


@dataclass(frozen=True)
class ConfigField:
    """A setting of a kind of destination, validated by the API's field of the same name. Stored values are never shown;
    a secret not even when the form is refused."""

    name: str
    label: str
    hint: str = ""
    placeholder: str = ""
    is_secret: bool = False
    is_clearable: bool = False
    """Whether a change can remove it: an empty field keeps the present value."""
    options: tuple[tuple[str, str], ...] = ()
    """Choices of value and label; empty for a text field."""


@dataclass(frozen=True)
class DestinationKind:
    label: str
    fields: tuple[ConfigField, ...]


DESTINATION_KINDS = {
    "local": DestinationKind(
        lazy_gettext("Directory"),
        (
            ConfigField(
                "path",
                lazy_gettext("Directory"),
                lazy_gettext("Every worker must reach it under this path. Created if it does not exist."),
                "/srv/backups",
            ),
        ),
    ),
    "s3": DestinationKind(
        lazy_gettext("S3 bucket"),
        (
            ConfigField(
                "endpoint",
                lazy_gettext("URL of the server"),
                lazy_gettext("Every worker must reach it."),
                "https://s3.example.com",
            ),
            ConfigField("bucket", lazy_gettext("Bucket"), lazy_gettext("It must exist."), "panel-backups"),
            ConfigField(
                "path_prefix",
                lazy_gettext("Folder in the bucket"),
                lazy_gettext("Optional, without slashes at its ends."),
                "backups",
                is_clearable=True,
            ),
            ConfigField("region", lazy_gettext("Region"), lazy_gettext("Default: us-east-1."), "eu-central-1"),
            ConfigField(
                "path_style",
                lazy_gettext("Name of the bucket in URLs"),
                options=(("true", lazy_gettext("In the path")), ("false", lazy_gettext("In the host name"))),
            ),
            ConfigField("access_key", lazy_gettext("Access key")),
            ConfigField("secret_key", lazy_gettext("Secret key"), is_secret=True),
        ),
    ),
    "rclone": DestinationKind(
        lazy_gettext("Remote of rclone"),
        (
            ConfigField(
                "remote",
                lazy_gettext("Remote"),
                lazy_gettext("Its name in the configuration of rclone, which every worker needs."),
                "offsite",
            ),
            ConfigField(
                "path_prefix",
                lazy_gettext("Folder in the remote"),
                lazy_gettext("Optional, without slashes at its ends."),
                "backups",
                is_clearable=True,
            ),
        ),
    ),
    "rbs": DestinationKind(
        lazy_gettext("Proxmox Backup Server"),
        (
            ConfigField("host", lazy_gettext("Host"), lazy_gettext("Every worker must reach it."), "pbs.example.com"),
            ConfigField("port", lazy_gettext("Port"), lazy_gettext("Default: 8007."), "8007"),
            ConfigField(
                "fingerprint",
                lazy_gettext("Fingerprint of the certificate"),
                lazy_gettext("SHA-256. No other certificate is accepted. Compare it with the server's dashboard."),
                "AB:CD:…",
            ),
            ConfigField("datastore", lazy_gettext("Datastore"), lazy_gettext("It must exist."), "backups"),
            ConfigField(
                "namespace",
                lazy_gettext("Namespace"),
                lazy_gettext("Optional. It must exist. Empty: the root of the datastore."),
                "panel",
                is_clearable=True,
            ),
            ConfigField(
                "auth_id",
                lazy_gettext("API token"),
                lazy_gettext("It needs the role DatastorePowerUser on the datastore."),
                "panel@pbs!backups",
            ),
            ConfigField("token_secret", lazy_gettext("Secret of the token"), is_secret=True),
            ConfigField(
                "verify_after_backup",
                lazy_gettext("Verify each new backup"),
                options=(("true", lazy_gettext("Yes")), ("false", lazy_gettext("No"))),
            ),
            ConfigField(
                "rbs_managed_retention",
                lazy_gettext("Old backups are deleted by"),
                options=(
                    ("false", lazy_gettext("Backup policies")),
                    ("true", lazy_gettext("Prune jobs of the server")),
                ),
            ),
        ),
    ),
}
"""By `storage_type`. A destination of another kind can be edited without its settings."""


def get_kind(storage_type):
    """Return the kind, or one without settings when the form does not know it."""
    return DESTINATION_KINDS.get(storage_type) or DestinationKind(storage_type, ())
