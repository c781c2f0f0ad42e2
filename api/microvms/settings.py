"""Settings of an account for its new micro VMs."""

from api import kit
from api.microvms import user
from api.microvms.customer import MANAGE_PERMISSION, VIEW_PERMISSION
from panel.schemas.microvm_settings import MicrovmSettingsOut, MicrovmSettingsPatch
from panel.services.microvms import settings

WRAPPED_SETTINGS = kit.build_wrapped_schema("settings", MicrovmSettingsOut)


@user.get("/microvm/settings", op="settings", can=VIEW_PERMISSION, out=WRAPPED_SETTINGS)
def show():
    """Show what new micro VMs get when their creation names nothing else."""
    return {"settings": settings.get(kit.get_current_access())}


@user.patch(
    "/microvm/settings",
    op="settings_update",
    can=MANAGE_PERMISSION,
    body=MicrovmSettingsPatch,
    out=WRAPPED_SETTINGS,
)
def update(body):
    """Change what new micro VMs get when their creation names nothing else, in this API and in the sandbox API.

    Only what is sent changes; null removes a default. 403 for members who have access to chosen resources only.
    """
    return {
        "message": "The settings are changed.",
        "settings": settings.update(kit.get_current_access(), body),
    }
