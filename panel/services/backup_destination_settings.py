"""The settings of backup destinations, which depend on the kind of storage."""

from collections.abc import Mapping
from typing import Any

from panel.core.errors import Invalid
from panel.core.messages import message

REQUIRED_SETTINGS = {
    "local": ("path",),
    "s3": ("endpoint", "bucket", "access_key", "secret_key"),
    "rclone": ("remote",),
    "rbs": ("host", "datastore", "auth_id", "token_secret", "fingerprint"),
}
UNUSED_SETTINGS = ("live_restore", "fleecing_storage")
"""Settings that clients may send. They change nothing, and the form does not have them."""

OPTIONAL_SETTINGS = {
    "local": (),
    "s3": ("path_prefix", "region", "path_style"),
    "rclone": ("path_prefix",),
    "rbs": ("port", "namespace", "verify_after_backup", "rbs_managed_retention", *UNUSED_SETTINGS),
}
SECRET_OWNERS = {"secret_key": "access_key", "token_secret": "auth_id"}
"""Secret → the setting that it belongs to."""


def merge_settings(storage_type: str, current: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings after a change. Raise Invalid unless they are complete and of this kind of storage. A blank
    secret stands for the present one, as long as the setting that it belongs to stays the same."""
    changes = {name: value for name, value in changes.items() if name not in SECRET_OWNERS or value.strip()}
    settings = {**current, **changes}
    for secret, owner in SECRET_OWNERS.items():
        if secret not in changes and settings.get(owner) != current.get(owner):
            settings.pop(secret, None)
    required = REQUIRED_SETTINGS[storage_type]
    errors = {name: message("Missing data for required field.") for name in required if name not in settings}
    for name in settings.keys() - {*required, *OPTIONAL_SETTINGS[storage_type]}:
        errors[name] = message("This kind of storage has no such setting.")
    if errors:
        fields = {f"config.{name}": text for name, text in errors.items()}
        raise Invalid(message("The settings do not fit the kind of storage."), **fields)
    return settings
