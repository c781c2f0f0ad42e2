"""The configuration for a machine's first boot. Deploy and reinstall use the same, made only from that request."""

import secrets
from collections.abc import Sequence
from typing import Any

from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Account, Image, Instance, Plan
from panel.services import catalog, ssh_keys
from panel.services import user_scripts as script_service
from panel.services.access import Access


def prepare_first_boot(
    instance: Instance,
    image_id: str,
    *,
    account: Access | Account | None = None,
    hostname: str | None = None,
    key_ids: Sequence[str] = (),
    user_scripts: Sequence[str] = (),
    password: str | None = None,
    cloudcfg: str | None = None,
    timezone: str | None = None,
    key_field: str = "ssh_keys",
) -> tuple[Image, dict[str, Any], str | None, str | None]:
    """Return the image, the task's arguments, its secret (the password), and the password if it was generated: when
    neither keys nor a password are given. `account` limits which images, keys and scripts may be used; operators pass
    none."""
    image = catalog.get_available_image(image_id, account)
    if image_error(instance, image):
        raise Invalid(message("The image does not fit the instance."), image_id=image_error(instance, image))
    keys = ssh_keys.get_chosen(key_ids, account, key_field)
    scripts = script_service.get_chosen(user_scripts, account)
    generated_password = None if keys or password else secrets.token_urlsafe(12)
    arguments = {
        "image_id": image.id,
        "hostname": hostname or instance.hostname,
        "ssh_keys": [key.authorized_keys_line for key in keys],
        "user_scripts": [script.id for script in scripts],
        "timezone": timezone,
        "cloudcfg": cloudcfg,
    }
    return image, arguments, password or generated_password, generated_password


def image_error(instance: Instance | Plan, image: Image) -> str | None:
    """Return why the image cannot be installed on this instance (or on one of this plan), or None."""
    if getattr(instance, "secure_boot_enabled", False) and not image.secure_boot:
        return message("The image does not start with secure boot. Switch that off first.")
    if image.min_disk > instance.storage:
        return message("The image needs {size} GiB of disk.", size=image.min_disk)
    return (
        message("The image needs {size} MiB of memory.", size=image.min_ram) if image.min_ram > instance.ram else None
    )
