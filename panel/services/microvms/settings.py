"""Settings of an account: what its new micro VMs get when their creation names nothing else."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from panel.core.db import lock_row, session
from panel.core.errors import Forbidden, Invalid
from panel.core.messages import Message, message
from panel.models import Account, MicrovmSettings
from panel.services import catalog
from panel.services.access import Access
from panel.services.crud import update_fields
from panel.services.microvms import actions, images

DEFAULT_FIELDS = ("location_id", "image_id", "timeout_seconds", "on_timeout")


def get(account: Access | Account) -> MicrovmSettings:
    """Return the account's settings: new ones, which are not stored, while it has none."""
    settings = session.scalar(select(MicrovmSettings).where(MicrovmSettings.account_id == account.id))
    return settings or MicrovmSettings(account_id=account.id)


def change_error(access: Access) -> Message | None:
    """Return why the person may not change the settings, or None."""
    if access.reach != "all":
        return message("The settings apply to the whole account, but you have access to chosen resources only.")
    return None


def update(access: Access, changes: Mapping[str, Any]) -> MicrovmSettings:
    """Change defaults; None removes one. The location and the image must be open to the account."""
    if not changes:
        return get(access)
    if error := change_error(access):
        raise Forbidden(error)
    if location_id := changes.get("location_id"):
        catalog.get_location(location_id, access, "location_id")
    if image_id := changes.get("image_id"):
        images.get_available(image_id, access)
    actions.ensure_valid_timeout(changes.get("timeout_seconds"))
    lock_row(Account, access.id)
    settings = get(access)
    session.add(settings)
    return update_fields(settings, dict(changes))


def apply_defaults(account: Access | Account, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for a new micro VM: `values`, and the account's settings for what is missing there."""
    settings = get(account)
    defaults = {name: getattr(settings, name) for name in DEFAULT_FIELDS}
    merged = {name: default for name, default in defaults.items() if default is not None} | dict(values)
    missing = [name for name in ("location_id", "image_id") if name not in merged]
    if missing:
        sentence = message("Choose one, or set a default in the account's micro VM settings.")
        raise Invalid(message("The micro VM needs a location and an image."), **dict.fromkeys(missing, sentence))
    return merged
