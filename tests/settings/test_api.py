"""Settings of the platform in the admin API."""

import pytest

from panel.core import context
from panel.core.db import session
from panel.models import AuditEntry, Setting
from panel.schemas.settings import SystemSettings
from panel.services import settings

SETTINGS_PATH = "/api/v1/system/settings"
VALID_SOURCES = "192.0.2.7,198.51.100.0/24,2001:db8::1,2001:db8::/32"


def get_system_settings(answer):
    assert answer.status_code == 200, answer.text
    return answer.json["data"]["settings"]["system"]


def test_settings_return_defaults(api_as):
    """OTH-06"""
    system_settings = get_system_settings(api_as("admin", "GET", SETTINGS_PATH))
    assert system_settings["vnc_allowed_sources"] == ""
    assert system_settings == {name: field.load_default for name, field in SystemSettings().fields.items()}


def test_vnc_allowed_sources_are_saved(api_as):
    """OTH-07"""
    assert (
        get_system_settings(api_as("admin", "POST", SETTINGS_PATH, json={"vnc_allowed_sources": VALID_SOURCES}))[
            "vnc_allowed_sources"
        ]
        == VALID_SOURCES
    )
    assert get_system_settings(api_as("admin", "GET", SETTINGS_PATH))["vnc_allowed_sources"] == VALID_SOURCES
    spaced = {"vnc_allowed_sources": " 192.0.2.7 , 192.0.2.8 "}
    assert (
        get_system_settings(api_as("admin", "POST", SETTINGS_PATH, json=spaced))["vnc_allowed_sources"]
        == "192.0.2.7,192.0.2.8"
    )
    assert (
        get_system_settings(api_as("admin", "POST", SETTINGS_PATH, json={"vnc_allowed_sources": ""}))[
            "vnc_allowed_sources"
        ]
        == ""
    )


@pytest.mark.parametrize(
    "bad",
    [
        *("example.com", "192.0.2.256", "192.0.2.0/33", "192.0.2.1/24", "192.0.2.0/255.255.255.0", "192.0.2.0/"),
        *("2001:db8::/129", "fe80::1%eth0", "*", "any", "192.0.2.1-192.0.2.9", "192.0.2", "3232235777"),
    ],
)
def test_invalid_vnc_source_saves_nothing(api_as, bad):
    """OTH-07"""
    api_as("admin", "POST", SETTINGS_PATH, json={"vnc_allowed_sources": "192.0.2.7"})
    body = {"vnc_allowed_sources": f"192.0.2.8,{bad},198.51.100.0/24", "rate_limit_requests": 5}
    answer = api_as("admin", "POST", SETTINGS_PATH, json=body)
    assert answer.status_code == 422
    assert bad in answer.json["errors"]["vnc_allowed_sources"][0]
    stored_settings = get_system_settings(api_as("admin", "GET", SETTINGS_PATH))
    assert (stored_settings["vnc_allowed_sources"], stored_settings["rate_limit_requests"]) == ("192.0.2.7", 600)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"nosuch": 1}, "nosuch"),
        ({"vnc_allowed_sources": None}, "vnc_allowed_sources"),
        ({"vnc_allowed_sources": ["192.0.2.7"]}, "vnc_allowed_sources"),
        ({"require_second_factor": "some"}, "require_second_factor"),
        ({"impersonation_expires_in": 59}, "impersonation_expires_in"),
        ({"impersonation_expires_in": 3601}, "impersonation_expires_in"),
        ({"billing_enabled": "true"}, "billing_enabled"),
        ({"rate_limit_requests": 0}, "rate_limit_requests"),
        ({"rate_limit_polls": "5"}, "rate_limit_polls"),
        ({"settings": {"system": {"nosuch": 1}}}, "nosuch"),
    ],
)
def test_invalid_settings_are_refused(api_as, body, field):
    answer = api_as("admin", "POST", SETTINGS_PATH, json=body)
    assert answer.status_code == 422
    assert field in answer.json["errors"]
    assert session.query(Setting).count() == 0


def test_missing_settings_are_unchanged(api_as):
    api_as("admin", "POST", SETTINGS_PATH, json={"rate_limit_polls": 7, "require_second_factor": "operators"})
    system_settings = get_system_settings(api_as("admin", "POST", SETTINGS_PATH, json={"rate_limit_metrics": 8}))
    assert (system_settings["rate_limit_polls"], system_settings["rate_limit_metrics"]) == (7, 8)
    assert system_settings["require_second_factor"] == "operators"
    assert get_system_settings(api_as("admin", "POST", SETTINGS_PATH, json={})) == system_settings


def test_settings_answer_can_be_sent_back(api_as):
    api_as("admin", "POST", SETTINGS_PATH, json={"vnc_allowed_sources": VALID_SOURCES})
    read = api_as("admin", "GET", SETTINGS_PATH).json["data"]
    assert get_system_settings(api_as("admin", "POST", SETTINGS_PATH, json=read)) == read["settings"]["system"]


def test_settings_change_applies_immediately_and_is_cached(api_as, queries):
    api_as("admin", "POST", SETTINGS_PATH, json={"rate_limit_metrics": 8})
    assert settings.get().rate_limit_metrics == 8
    queries.clear()
    assert settings.get().rate_limit_metrics == 8
    assert queries == []


def test_settings_cache_expires_after_seconds(rolled_back_app, monkeypatch):
    assert settings.get().rate_limit_polls == 1200
    session.merge(Setting(name="rate_limit_polls", value=7))
    session.flush()
    assert settings.get().rate_limit_polls == 1200
    until, _ = context.current().cached_settings
    monkeypatch.setattr("panel.services.settings.time.monotonic", lambda: until + 1)
    assert settings.get().rate_limit_polls == 7
    settings.invalidate()


def test_settings_change_is_audited(api_as):
    api_as("admin", "POST", SETTINGS_PATH, json={"vnc_allowed_sources": "192.0.2.7", "rate_limit_polls": 7})
    entry = session.query(AuditEntry).one()
    assert (entry.action, entry.object_type) == ("admin.system.update_settings", "settings")
    assert entry.changes.keys() == {"did", "fields"}
    assert set(entry.changes["fields"]) == {"rate_limit_polls", "vnc_allowed_sources"}
