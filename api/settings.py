"""Settings of the platform."""

from api import kit
from api.connect import admin as system
from panel.schemas.settings import (
    CloudServiceSettingsOut,
    CloudServiceSettingsPatch,
    SettingsOut,
    SettingsPatch,
)
from panel.services import settings


@system.get("/system/settings", op="settings", can="admin:settings:read", out=SettingsOut)
def show():
    """Get the settings of the platform.

    Settings that were never changed have their default value.
    """
    return describe_settings(settings.get())


@system.post("/system/settings", op="update_settings", can="admin:settings:write", body=SettingsPatch, out=SettingsOut)
def update(body):
    """Update settings of the platform.

    Only the fields you send are changed. Nothing is changed if one value is invalid. All processes use the new values
    within five seconds.
    """
    kit.set_message("Settings updated.")
    return describe_settings(settings.update(body))


@system.get(
    "/cloud-service/settings",
    op="cloud_service_settings",
    can="admin:settings:read",
    out=CloudServiceSettingsOut,
)
def show_cloud_service():
    """Get the settings of what customers buy.

    They are a part of the settings of the platform, with the same names.
    """
    return describe_settings(settings.get(), "cloud_service")


@system.post(
    "/cloud-service/settings",
    op="update_cloud_service_settings",
    can="admin:settings:write",
    body=CloudServiceSettingsPatch,
    out=CloudServiceSettingsOut,
)
def update_cloud_service(body):
    """Update the settings of what customers buy.

    Only the fields you send are changed. Nothing is changed if one value is invalid. All processes use the new values
    within five seconds.
    """
    kit.set_message("Settings updated.")
    return describe_settings(settings.update(body), "cloud_service")


def describe_settings(values, area="system"):
    return {"settings": {area: values}}
