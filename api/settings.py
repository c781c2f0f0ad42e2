"""Settings of the platform."""

from api import kit
from api.connect import admin as system
from panel.schemas.settings import SettingsOut, SettingsPatch
from panel.services import settings


@system.get("/system/settings", op="settings", can="admin:settings:read", out=SettingsOut)
def show():
    """Show the platform's settings.

    What was never set is at its default.
    """
    return describe_settings(settings.get())


@system.post("/system/settings", op="update_settings", can="admin:settings:write", body=SettingsPatch, out=SettingsOut)
def update(body):
    """Change settings of the platform.

    What is not sent stays. If one value is wrong nothing is changed. Every process goes by the new values within five
    seconds.
    """
    kit.set_message("The settings are changed.")
    return describe_settings(settings.update(body))


def describe_settings(values):
    return {"settings": {"system": values}}
